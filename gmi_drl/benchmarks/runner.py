"""Runs a case: measures its sides in turn, and records the machine and its load."""

from collections.abc import Callable

from gmi_drl.benchmarks.calibration import Calibration
from gmi_drl.benchmarks.case import Case, Sample, Side, Sides
from gmi_drl.benchmarks.machine import Watch
from gmi_drl.benchmarks.result import CaseFacts, Ratio, Result, SampleRecord, Settings, Spread
from gmi_drl.benchmarks.statistics import ends, ends_of, ratios, spread
from gmi_drl.errors import GmiError, MachineError, UsageError

Samples = dict[str, list[Sample]]
OnSample = Callable[[int, str, Sample], None]
"""Called after each measurement with the round (from 1), the side and the sample."""


def run_case(
    case: Case,
    *,
    repeats: int,
    quick: bool = False,
    judged: bool = False,
    on_sample: OnSample = lambda *sample: None,
) -> Result:
    """Measure a case.

    Args:
        case: The case.
        repeats: Rounds.
        quick: Whether to measure the small sizes of the guard.
        judged: Whether there must be a ratio.
        on_sample: Called after each measurement.

    Raises:
        UsageError: if the case is to be judged and compares nothing, before it is measured.
        MachineError: if this machine cannot run the case, with the reason.
        GmiError: if a side measured 0 or less, of which there is no ratio.
    """
    if obstacle := case.obstacle():
        raise MachineError(f"{case.name} cannot run on this machine: {obstacle}")
    nothing = UsageError(f"{case.name} compares nothing: leave out --fail-below")
    if judged and not case.compared:
        raise nothing
    watch = Watch()
    with case.open(quick) as sides:
        if judged and len(sides) == 1:
            raise nothing
        calibration = Calibration()
        samples = measure(sides, repeats, on_sample, calibration)
        same = same_as_ours(sides) if case.compared else ()
        machine = watch.machine()  # while the children live, so that their time counts as ours
    values = {name: [sample.value for sample in column] for name, column in samples.items()}
    facts = {name: getattr(case, name) for name in CaseFacts.model_fields}
    return Result(
        case=CaseFacts(**facts),
        machine=machine,
        settings=Settings(repeats=repeats, quick=quick),
        samples={
            name: tuple(SampleRecord(value=sample.value, details=sample.details) for sample in column)
            for name, column in samples.items()
        },
        summaries={name: _spread(column) for name, column in values.items()},
        ratios=compare(case, {side: values[side] for side in values if side not in same}) if case.compared else {},
        same=same,
        calibration=tuple(calibration.seconds),
    )


def measure(sides: Sides, rounds: int, on_sample: OnSample, calibrate: Callable[[], object]) -> Samples:
    """Measure each side once a round. Every other round is in the opposite order, so no side always follows another.

    A side with two names is measured once for both. The calibration is measured like a side, first or last in a round.
    """
    samples: Samples = {name: [] for name in sides}
    names: dict[Side, list[str]] = {}
    for name, side in sides.items():
        names.setdefault(side, []).append(name)
    for index in range(rounds):
        is_forward = index % 2 == 0
        if is_forward:
            calibrate()
        for side in list(names)[:: 1 if is_forward else -1]:
            sample = side()
            for name in names[side]:
                samples[name].append(sample)
                on_sample(index + 1, name, sample)
        if not is_forward:
            calibrate()
    return samples


def same_as_ours(sides: Sides) -> tuple[str, ...]:
    """The names of sides that are our own side under another name."""
    (_, ours), *others = sides.items()
    return tuple(name for name, side in others if side is ours)


def compare(case: Case, values: dict[str, list[float]]) -> dict[str, Ratio]:
    """Our ratio to each other side, or that of each other side to the first one if that is the baseline."""
    ours, *others = values
    if others and (bad := [name for name, column in values.items() if min(column) <= 0]):
        raise GmiError(f"{case.name}: {', '.join(bad)} measured 0 {case.unit} or less, so there is no ratio")
    pairs = {name: (name, ours) if case.is_baseline_first else (ours, name) for name in others}
    return {name: _ratio(values[one], values[other], case.lower_is_better) for name, (one, other) in pairs.items()}


def _spread(values: list[float]) -> Spread:
    median, least, most = spread(values)
    return Spread(median=median, least=least, most=most)


def _ratio(ours: list[float], theirs: list[float], lower_is_better: bool) -> Ratio:
    rounds = ratios(ours, theirs, lower_is_better=lower_is_better)
    low, high = ends(rounds)
    return Ratio(rounds=tuple(rounds), median=spread(rounds)[0], low=low, high=high, ends=ends_of(len(rounds)))
