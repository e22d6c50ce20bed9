"""`metrics.jsonl`: one JSON object per iteration."""

import json
import math
import os
import sys
import warnings
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from types import UnionType
from typing import Any

from gmi_drl.errors import GmiWarning, MachineError
from gmi_drl.files import write_atomically
from gmi_drl.run.phases import PHASE_NAMES

Row = dict[str, Any]

TAIL_BYTES = 256 * 1024

NUMBERS = (
    "env_steps",
    "steps_per_second",
    "return_mean",
    "eval_return_mean",
    "episode_length_mean",
    "eval_s",
    *PHASE_NAMES,
)
"""Entries of a row that readers use, besides its iteration and `gmis`, which has the phases of each GMI; null where
there was nothing to measure."""


class MetricsFile:
    """Appends rows. After a crash each is complete or absent."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("a", encoding="utf-8")

    def write(self, row: Row) -> None:
        """Write one row. Numbers that are not finite become null, since JSON has none.

        Raises:
            MachineError: if it cannot be written.
        """
        try:
            self._file.write(json.dumps(_finite(row)) + "\n")
            self._file.flush()
        except OSError as error:
            raise self._unwritten(error) from None

    def close(self) -> None:
        """Close the file.

        Raises:
            MachineError: if a row that could not be written still cannot be.
        """
        try:
            self._file.close()
        except OSError as error:
            raise self._unwritten(error) from None

    def _unwritten(self, error: OSError) -> MachineError:
        return MachineError(f"{self._file.name} cannot be written: {error.strerror}")


def read_metrics(path: Path) -> list[Row]:
    """All rows, without a last line that a crash cut short. Warns (GmiWarning) of others that are no rows."""
    return list(_rows(path))


def last_row(path: Path) -> Row:
    """The newest row, without reading the others; empty if there is none."""
    return next(iter(tail(path, 1)), {})


def tail(path: Path, count: int) -> list[Row]:
    """The newest rows, at most `count` and those of the last `TAIL_BYTES`, oldest first."""
    if not path.exists():
        return []
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - TAIL_BYTES))
        lines = file.read().decode(errors="replace").splitlines()
    newest = (row for line in reversed(lines) if (row := _row(line)))
    return list(islice(newest, count))[::-1]


def drop_rows_after(path: Path, iteration: int, into: Path) -> list[Row]:
    """Move the rows after an iteration to the end of another file, when a run goes back to its checkpoint.

    Returns those rows. After a crash each row is in one of the files, or in both.
    """
    rows = read_metrics(path)
    dropped = [row for row in rows if row["iteration"] > iteration]
    if dropped:
        with into.open("a", encoding="utf-8") as file:
            file.writelines(json.dumps(row) + "\n" for row in dropped)
            file.flush()
            os.fsync(file.fileno())
    kept = [json.dumps(row) + "\n" for row in rows if row["iteration"] <= iteration]
    write_atomically(path, "".join(kept))
    return dropped


def _rows(path: Path) -> Iterator[Row]:
    if not path.exists():
        return
    for number, line in enumerate(path.read_text(encoding="utf-8", errors="replace").splitlines(), 1):
        row = _parsed(line)
        if row and (wrong := _wrong(row)):
            text = f"{path}, line {number}: {wrong} is not what a run writes there: this row is left out"
            warnings.warn(text, GmiWarning, stacklevel=1)
        elif row:
            yield row


def _row(line: str) -> Row:
    """The row in a line; empty if it is cut short, or an entry that readers use has a wrong type."""
    row = _parsed(line)
    return {} if _wrong(row) else row


def _parsed(line: str) -> Row:
    """The object in a line; empty if it is cut short, or something else."""
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return row if isinstance(row, dict) else {}


def _wrong(row: Row) -> str:
    """The first entry that readers use and that has a wrong type; empty if there is none."""
    if not _is_number(row.get("iteration"), int):
        return "iteration"
    if wrong := next((name for name in NUMBERS if not _is_number_or_null(row.get(name))), ""):
        return wrong
    gmis = {} if row.get("gmis") is None else row["gmis"]
    if not isinstance(gmis, dict):
        return "gmis"
    return next((f"gmis.{gmi}" for gmi, phases in gmis.items() if not _are_phases(phases)), "")


def _are_phases(value: object) -> bool:
    return isinstance(value, dict) and all(_is_number_or_null(value.get(name)) for name in PHASE_NAMES)


def _is_number_or_null(value: object) -> bool:
    return value is None or _is_number(value, int | float)


def _is_number(value: object, kind: type | UnionType) -> bool:
    """Whether a value is of this type and in range: JSON's true, NaN, Infinity and integers of 400 digits are not."""
    return isinstance(value, kind) and not isinstance(value, bool) and abs(value) <= sys.float_info.max  # type: ignore[arg-type]


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(inner) for key, inner in value.items()}
    return None if isinstance(value, float) and not math.isfinite(value) else value
