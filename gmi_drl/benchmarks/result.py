"""Result files: the measurements of a case, with machine and settings."""

import json
from pathlib import Path
from statistics import median
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from gmi_drl.benchmarks.machine import Machine
from gmi_drl.benchmarks.statistics import Ends, ends_of
from gmi_drl.files import FileModel, load_json, write_atomically
from gmi_drl.units import human_value

Count = Annotated[int, Field(ge=1)]
SAME = "same choice"


class CaseFacts(FileModel):
    """The fields of a `Case` that describe it; see there."""

    name: str
    claim: str
    unit: str
    lower_is_better: bool
    reference: str
    limits: str
    is_baseline_first: bool = False  # not in older files


class Settings(FileModel):
    """The number of rounds, and whether the small sizes of the guard were measured."""

    repeats: Count
    quick: bool


class SampleRecord(FileModel):
    """One measurement; see `Sample`."""

    value: float
    details: dict[str, Any]


class Spread(FileModel):
    """Median and range."""

    median: float
    least: float
    most: float


class Ratio(FileModel):
    """Our ratio to another side, or a side's ratio to the baseline; above 1 is better.

    It has the ratio of each round, their median, and the median's 95 % bootstrap interval from `low` to `high`. With
    fewer rounds than `statistics.FEWEST` `low` and `high` are the range, and `ends` is "range".
    """

    rounds: tuple[float, ...]
    median: float
    low: float
    high: float
    ends: Ends | None = None  # not in older files

    def __str__(self) -> str:
        what = "range " if ends_of(len(self.rounds)) == "range" else ""
        return f"{self.median:.2f}x ({what}{self.low:.2f}-{self.high:.2f})"


class Result(FileModel):
    """A result file: JSON, `schema: gmi-drl/bench/1`. Sides are in the case's order.

    Args:
        case: The case.
        machine: The machine.
        settings: The settings of the measurement.
        samples: Samples by side.
        summaries: Median and range by side.
        ratios: Our ratio to every other side that is not the same as ours, or the ratio of each to the baseline; empty
            if sides are not compared.
        same: Sides that are our own under another name, because both chose the same: they share its samples.
        calibration: Seconds of a fixed piece of work (`calibration.py`) in each round; empty in older files.
    """

    schema_: Annotated[Literal["gmi-drl/bench/1"], Field(alias="schema")] = "gmi-drl/bench/1"
    case: CaseFacts
    machine: Machine
    settings: Settings
    samples: Annotated[dict[str, Annotated[tuple[SampleRecord, ...], Field(min_length=1)]], Field(min_length=1)]
    summaries: dict[str, Spread]
    ratios: dict[str, Ratio]
    same: tuple[str, ...] = ()
    calibration: tuple[float, ...] = ()

    @property
    def command(self) -> str:
        """The command that repeats the measurement."""
        return f"gmi-drl bench {self.case.name} --repeats {self.settings.repeats}"

    def below(self, bound: float, name: str | None = None) -> list[str]:
        """A sentence for each ratio whose median is below `bound`. It begins with `name` or the case's name."""
        first = next(iter(self.samples))
        return [
            f"{name or self.case.name}: {text} is below {bound:g}"
            for side, ratio in self.ratios.items()
            for text in [f"{side}: {ratio} of {first}" if self.case.is_baseline_first else f"{ratio} against {side}"]
            if ratio.median < bound
        ]

    def against(self, side: str) -> str:
        """Our ratio to a side, or its ratio to the baseline, as text; empty for a side without one."""
        return SAME if side in self.same else str(self.ratios.get(side, ""))

    @property
    def against_title(self) -> str:
        """The title of a column of `against`."""
        return f"its ratio to {next(iter(self.samples))}" if self.case.is_baseline_first else "our ratio to it"

    def gained(self, side: str) -> str:
        """The gain in SM activity (`sm_util`) that goes with a ratio, in percentage points, as text.

        It is our median less the side's, or the side's less the baseline's; empty if one is not known.
        """
        first, other = (self._activity(name) for name in (next(iter(self.samples)), side))
        if side not in self.ratios or first is None or other is None:
            return ""
        return f"{other - first if self.case.is_baseline_first else first - other:+.1f} points"

    @property
    def knows_activity(self) -> bool:
        """Whether `gained` is known for a side."""
        return any(map(self.gained, self.samples))

    def _activity(self, side: str) -> float | None:
        found = [sample.details["sm_util"] for sample in self.samples[side] if "sm_util" in sample.details]
        return median(found) if found else None

    @property
    def in_a_loop(self) -> float:
        """Our work in the time of a loop of the calibration, the median of the rounds."""
        ours = (sample.value for sample in next(iter(self.samples.values())))
        pairs = zip(ours, self.calibration, strict=True)
        return median(loop_s / own if self.case.lower_is_better else own * loop_s for own, loop_s in pairs)

    def below_floor(self, floor: float) -> list[str]:
        """A sentence if `in_a_loop` is below `floor`. Other sides do not matter here."""
        if self.in_a_loop >= floor:
            return []
        loop = human_value(median(self.calibration), "s")
        work = f"{self.in_a_loop:.3g} of our work in a loop of the calibration ({loop}) is below {floor:g}"
        return [f"{self.case.name}: {work}: ours is slow, whatever the ratios are"]

    def document(self) -> dict[str, Any]:
        """The result as the content of a JSON file."""
        return self.model_dump(mode="json", by_alias=True)

    @model_validator(mode="after")
    def _check_sides(self) -> Self:
        sides = list(self.samples)
        compared = [side for side in sides[1:] if side not in self.same]
        if list(self.summaries) != sides or list(self.ratios) not in (compared, []):
            raise ValueError(
                f"sides {sides} do not match summaries {list(self.summaries)} and ratios {list(self.ratios)}"
            )
        return self


def write_result(result: Result, path: Path) -> None:
    """Write a result file."""
    write_atomically(path, json.dumps(result.document(), indent=1) + "\n")


def load_result(path: Path) -> Result:
    """Read and check a result file.

    Raises:
        UsageError: with all mistakes in the file.
    """
    return load_json(Result, path, "result")
