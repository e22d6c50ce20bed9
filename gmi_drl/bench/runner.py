"""Runs a case: its sides by turns, with what the numbers depend on."""

from collections.abc import Callable

from gmi_drl.bench.case import Case, Sample, Sides
from gmi_drl.bench.machine import Watch
from gmi_drl.bench.result import CaseFacts, Ratio, Result, SampleRecord, Settings, Spread
from gmi_drl.bench.statistics import bootstrap, ratios, spread
from gmi_drl.errors import GmiError, MachineError

Samples = dict[str, list[Sample]]
OnSample = Callable[[int, str, Sample], None]
"""Called after each measurement with the round (from 1), the side and the sample."""


def run_case(case: Case, *, repeats: int, quick: bool = False, on_sample: OnSample = lambda *sample: None) -> Result:
    """Measure a case.

    Args:
        case: What.
        repeats: Rounds.
        quick: With the small sizes of the guard.
        on_sample: Hears of the progress.

    Raises:
        MachineError: if this machine cannot run it, with the reason.
        GmiError: if a side measured what no ratio can be taken of.
    """
    if obstacle := case.obstacle():
        raise MachineError(f"{case.name} cannot run on this machine: {obstacle}")
    watch = Watch()
    with case.open(quick) as sides:
        samples = measure(sides, repeats, on_sample)
        machine = watch.machine()  # while the children live, so that their time is known to be ours
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
        ratios=compare(case, values) if case.compared else {},
    )


def measure(sides: Sides, rounds: int, on_sample: OnSample) -> Samples:
    """Each side once a round; every other round in the opposite order, so that no side always comes after another."""
    samples: Samples = {name: [] for name in sides}
    for index in range(rounds):
        order = list(sides)[:: 1 if index % 2 == 0 else -1]
        for name in order:
            sample = sides[name]()
            samples[name].append(sample)
            on_sample(index + 1, name, sample)
    return samples


def compare(case: Case, values: dict[str, list[float]]) -> dict[str, Ratio]:
    """Our ratio to each other side."""
    ours, *others = values
    if others and (bad := [name for name, column in values.items() if min(column) <= 0]):
        raise GmiError(f"{case.name}: {', '.join(bad)} measured 0 {case.unit} or less, so there is no ratio")
    return {name: _ratio(values[ours], values[name], case.lower_is_better) for name in others}


def _spread(values: list[float]) -> Spread:
    median, least, most = spread(values)
    return Spread(median=median, least=least, most=most)


def _ratio(ours: list[float], theirs: list[float], lower_is_better: bool) -> Ratio:
    rounds = ratios(ours, theirs, lower_is_better=lower_is_better)
    low, high = bootstrap(rounds)
    return Ratio(rounds=tuple(rounds), median=spread(rounds)[0], low=low, high=high)
