"""`sweep.json`: what a sweep runs. With the folders of its trials it is all that a resumed sweep needs."""

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from gmi_drl.errors import UsageError
from gmi_drl.files import FileModel, load_json, write_atomically

FILE = "sweep.json"
MOST_TRIALS = 10_000


class Trial(FileModel):
    """One training, or one run of a program."""

    name: str
    """Of its folder."""

    seed: int
    """Its seed."""

    settings: dict[str, str]
    """What --set gives it, by key."""


class Range(FileModel):
    """The values of a setting that a search tries: numbers from `low` to `high`, or `choices`."""

    low: float = 0.0
    """The least."""

    high: float = 0.0
    """The most."""

    is_whole: bool = False
    """Whether all are whole numbers."""

    log: bool = False
    """Whether equal ratios, not equal differences, are as likely."""

    choices: tuple[str, ...] = ()
    """The values, if they are not numbers of a range."""

    def value(self, text: str) -> str | float | int:
        """The value that a --set has."""
        return text if self.choices else int(text) if self.is_whole else float(text)

    def text(self, value: str | float | int) -> str:
        """How --set has it."""
        if self.choices or self.is_whole:
            return str(value if self.choices else int(value))
        short = f"{value:.6g}"
        return short if self.low <= float(short) <= self.high else repr(float(value))

    @property
    def count(self) -> float:
        """How many values there are."""
        return len(self.choices) or (self.high - self.low + 1 if self.is_whole else float("inf"))


class Search(FileModel):
    """What a search tries, in place of all combinations."""

    ranges: dict[str, Range]
    """The values of each setting."""

    fixed: dict[str, str]
    """Settings that all trials have."""

    seeds: tuple[int, ...]
    """Of each combination."""

    combinations: Annotated[int, Field(ge=1)]
    """How many are tried."""


class Sweep(FileModel):
    """A sweep (`sweep.json`)."""

    version: Literal[1] = 1
    """Of the format."""

    arguments: tuple[str, ...] = ()
    """Options of `gmi-drl train` that all trials have."""

    launcher: Literal["local", "ray"] = "local"
    """Where our trainings run: on this machine, or on the nodes of a Ray cluster."""

    command: str | None = None
    """The command line of other programs; None: the trials are our trainings."""

    trials: tuple[Trial, ...]
    """What is run, in this order."""

    at_once: Annotated[int, Field(ge=1)] | None = None
    """How many trials run at once, on each node; None until it is measured. Each has an equal share of the cores."""

    measured: dict[str, float] = Field(default_factory=dict)
    """Steps/s of all trials together, by how many ran at once."""

    stop_early: bool = False
    """Whether trials below the median of the finished ones are stopped."""

    search: Search | None = None
    """What is searched. Then `trials` are those of the combinations that were tried so far."""

    @property
    def total(self) -> int:
        """How many trials there are in the end."""
        return len(self.trials) if self.search is None else self.search.combinations * len(self.search.seeds)


def read_sweep(folder: Path) -> Sweep:
    """The sweep in a folder.

    Raises:
        UsageError: if there is none, or its file is broken.
    """
    if not (folder / FILE).is_file():
        raise UsageError(f"{folder} is no folder of a sweep: it has no {FILE}")
    return load_json(Sweep, folder / FILE, "sweep")


def write_sweep(folder: Path, sweep: Sweep) -> None:
    """Write it, whole or not at all."""
    write_atomically(folder / FILE, sweep.model_dump_json(indent=2) + "\n")


def make_trials(seeds: Sequence[int], settings: Mapping[str, Sequence[str]]) -> tuple[Trial, ...]:
    """All seeds of all combinations of values; a combination's seeds follow each other.

    Raises:
        UsageError: if they are too many.
    """
    combinations = [dict(zip(settings, values, strict=True)) for values in product(*settings.values())]
    if len(combinations) * len(seeds) > MOST_TRIALS:
        raise UsageError(f"{len(combinations)} combinations x {len(seeds)} seeds: at most {MOST_TRIALS} trials")
    both = [(combination, seed) for combination in combinations for seed in seeds]
    width = len(str(len(both) - 1))
    return tuple(
        Trial(name=_name(f"{number:0{width}d}", seed, values, settings), seed=seed, settings=values)
        for number, (values, seed) in enumerate(both)
    )


def read_seeds(text: str) -> list[int]:
    """`"0-3,7"` -> `[0, 1, 2, 3, 7]`.

    Raises:
        UsageError: if it is something else, or has a seed twice.
    """
    seeds: list[int] = []
    for part in text.split(","):
        found = re.fullmatch(r"\s*(\d{1,10})(?:-(\d{1,10}))?\s*", part)
        first, last = (int(found[1]), int(found[2] or found[1])) if found else (1, 0)
        if last < first or last >= 2**32 or last - first >= MOST_TRIALS:
            raise UsageError(f"--seeds {text}: expected numbers and ranges below 2^32, such as 0-15 or 0,3,5-7")
        seeds += range(first, last + 1)
    if len(set(seeds)) < len(seeds):
        raise UsageError(f"--seeds {text}: a seed is given twice")
    return seeds


def read_values(settings: Sequence[str]) -> dict[str, list[str]]:
    """`["a.b=1,2"]` -> `{"a.b": ["1", "2"]}`. Commas in brackets do not separate values.

    Raises:
        UsageError: if one is malformed, or has a value twice.
    """
    values: dict[str, list[str]] = {}
    for setting in settings:
        key, is_equal, text = setting.partition("=")
        key, found = key.strip(), [value.strip() for value in _split(text)]
        if not is_equal or not key or "" in found:
            raise UsageError(f"--set {setting}: expected KEY=VALUE,VALUE,..., such as learner.learning_rate=3e-4,1e-3")
        if key in values or len(set(found)) < len(found):
            raise UsageError(f"--set {setting}: {'the key' if key in values else 'a value'} is given twice")
        values[key] = found
    return values


def _split(text: str) -> Iterator[str]:
    """The parts between commas outside of brackets."""
    depth, part = 0, ""
    for letter in text:
        depth += (letter in "[{(") - (letter in "]})")
        if letter == "," and depth == 0:
            yield part
            part = ""
        else:
            part += letter
    yield part


def _name(number: str, seed: int, values: Mapping[str, str], all_values: Mapping[str, Sequence[str]]) -> str:
    """The name of a folder: number, values that differ between trials, seed."""
    varied = [f"{key.rpartition('.')[2]}={value}" for key, value in values.items() if len(all_values[key]) > 1]
    return re.sub(r"[^\w.=+-]", "_", "-".join([number, *varied, f"seed{seed}"]))[:120]
