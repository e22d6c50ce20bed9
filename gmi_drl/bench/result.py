"""Result files: what a case measured, where, and against what."""

import json
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from gmi_drl.bench.machine import Machine
from gmi_drl.files import FileModel, load_json, write_atomically

Count = Annotated[int, Field(ge=1)]


class CaseFacts(FileModel):
    """What a `Case` says of itself; see there."""

    name: str
    claim: str
    unit: str
    lower_is_better: bool
    reference: str
    limits: str


class Settings(FileModel):
    """How it was measured: rounds, and whether with the small sizes of the guard."""

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
    """How many times as good as another side we are: in each round, their median, and its 95 % bootstrap interval."""

    rounds: tuple[float, ...]
    median: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.median:.2f}x ({self.low:.2f}-{self.high:.2f})"


class Result(FileModel):
    """A result file: JSON, `schema: gmi-drl/bench/1`. Sides lie in the case's order, ours first.

    `ratios` are those to every side but the first, or none.
    """

    schema_: Annotated[Literal["gmi-drl/bench/1"], Field(alias="schema")] = "gmi-drl/bench/1"
    case: CaseFacts
    machine: Machine
    settings: Settings
    samples: Annotated[dict[str, Annotated[tuple[SampleRecord, ...], Field(min_length=1)]], Field(min_length=1)]
    summaries: dict[str, Spread]
    ratios: dict[str, Ratio]

    @property
    def command(self) -> str:
        """What measures it again."""
        return f"gmi-drl bench {self.case.name} --repeats {self.settings.repeats}"

    def below(self, bound: float, name: str | None = None) -> list[str]:
        """A sentence for each ratio whose median is below `bound`, on a result of this name; None for the case's."""
        return [
            f"{name or self.case.name}: {ratio} against {side} is below {bound:g}"
            for side, ratio in self.ratios.items()
            if ratio.median < bound
        ]

    def document(self) -> dict[str, Any]:
        """As JSON holds it."""
        return self.model_dump(mode="json", by_alias=True)

    @model_validator(mode="after")
    def _check_sides(self) -> Self:
        sides = list(self.samples)
        if list(self.summaries) != sides or list(self.ratios) not in (sides[1:], []):
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
        UsageError: with every mistake in it.
    """
    return load_json(Result, path, "result")
