"""Search in place of all combinations: what a sweep tries next, as Optuna's sampler suggests. Extra `[sweep]`.

The study is made anew for each suggestion, from `sweep.json` and the ends of its trials: these stay all that a resumed
sweep needs.
"""

import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from gmi_drl.errors import MachineError, UsageError
from gmi_drl.launch.sweep.sweep_file import Range, Sweep, make_trials, read_values
from gmi_drl.launch.sweep.table import Line, results

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution

NUMBER = r"[-+]?\d+(?:\.\d*)?(?:[eE][-+]?\d+)?"
WHOLE = re.compile(r"[-+]?\d+")
RANGE = re.compile(rf"\s*({NUMBER})\s*\.\.\s*({NUMBER})\s*(:log)?\s*")

MOST_ASKED = 200
"""How often Optuna is asked until it suggests a combination that was not tried."""


def read_ranges(texts: Sequence[str]) -> dict[str, Range]:
    """`["a=1e-4..1e-2:log", "b=2..8", "c=x,y"]`: numbers from a range, whole ones where both ends are, or choices.

    Raises:
        UsageError: if one is malformed, or a key is given twice.
    """
    ranges: dict[str, Range] = {}
    for text in texts:
        key, is_equal, values = text.partition("=")
        key = key.strip()
        if not is_equal or not key or not values.strip():
            raise UsageError(f"--search {text}: expected KEY=LOW..HIGH, KEY=LOW..HIGH:log or KEY=VALUE,VALUE,...")
        if key in ranges:
            raise UsageError(f"--search {text}: the key is given twice")
        found = RANGE.fullmatch(values)
        if found is None and ".." in values:
            raise UsageError(f"--search {text}: expected two numbers, such as 1e-4..1e-2")
        ranges[key] = Range(choices=tuple(read_values([text])[key])) if found is None else _range(text, *found.groups())
    return ranges


def _range(text: str, low: str, high: str, log: str | None) -> Range:
    if not all(math.isfinite(float(one)) for one in (low, high)):
        raise UsageError(f"--search {text}: the numbers have to be finite")
    if float(low) >= float(high):
        raise UsageError(f"--search {text}: the first number has to be less than the second")
    if log and float(low) <= 0:
        raise UsageError(f"--search {text}: a logarithmic range begins above 0")
    is_whole = all(WHOLE.fullmatch(one) for one in (low, high))
    return Range(low=float(low), high=float(high), is_whole=is_whole, log=bool(log))


def extremes(ranges: Mapping[str, Range]) -> list[dict[str, str]]:
    """All lowest values, and all highest ones: whoever takes both takes, for most settings, all between."""
    return [
        {key: one.text(one.choices[end] if one.choices else (one.low, one.high)[end]) for key, one in ranges.items()}
        for end in (0, -1)
    ]


def count_of(ranges: Mapping[str, Range]) -> float:
    """How many combinations there are."""
    return math.prod(one.count for one in ranges.values())


def with_next(folder: Path, sweep: Sweep) -> Sweep:
    """The sweep with the trials of one more combination.

    Raises:
        MachineError: if Optuna is not installed.
    """
    assert sweep.search is not None
    settings = {**sweep.search.fixed, **_suggest(sweep, results(folder, sweep) if sweep.trials else [])}
    more = make_trials(sweep.search.seeds, {key: [value] for key, value in settings.items()})
    first, width = len(sweep.trials), len(str(sweep.total - 1))
    named = [
        trial.model_copy(update={"name": f"{first + place:0{width}d}-seed{trial.seed}"})
        for place, trial in enumerate(more)
    ]
    return sweep.model_copy(update={"trials": (*sweep.trials, *named)})


def _suggest(sweep: Sweep, lines: Sequence[Line]) -> dict[str, str]:
    """The values of the next combination, by the median returns of those before; those that run count as bad ones."""
    try:
        import optuna
    except ImportError as error:
        raise MachineError(f"Optuna is not installed ({error}): pip install 'gmi-drl[sweep]'") from error
    assert sweep.search is not None
    ranges = sweep.search.ranges
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    seed = len(lines) + len(sweep.trials)  # a combination that comes twice has one line
    sampler = optuna.samplers.TPESampler(seed=seed, constant_liar=True)
    study = optuna.create_study(direction="maximize", sampler=sampler)
    spaces = {key: _distribution(one) for key, one in ranges.items()}
    for line in lines:
        params = {key: ranges[key].value(line.settings[key]) for key in ranges}
        study.add_trial(optuna.trial.create_trial(params=params, distributions=spaces, **_state(line)))
    tried = [{key: line.settings[key] for key in ranges} for line in lines]
    for _ in range(MOST_ASKED):
        asked = study.ask(spaces)
        suggested = {key: ranges[key].text(asked.params[key]) for key in ranges}
        if suggested not in tried:
            break
    return suggested


def _state(line: Line) -> dict[str, Any]:
    """What Optuna is told of a combination: its median return, that it runs, or that it has failed."""
    from optuna.trial import TrialState

    if line.done + line.early + line.failed < line.total:
        return {"state": TrialState.RUNNING}
    known = [*line.returns.values(), *line.early_returns.values()]
    return {"state": TrialState.COMPLETE, "value": median(known)} if known else {"state": TrialState.FAIL}


def _distribution(one: Range) -> "BaseDistribution":
    from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

    if one.choices:
        return CategoricalDistribution(one.choices)
    if one.is_whole:
        return IntDistribution(int(one.low), int(one.high), log=one.log)
    return FloatDistribution(one.low, one.high, log=one.log)
