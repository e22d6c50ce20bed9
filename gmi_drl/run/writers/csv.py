"""Metrics as a table, `metrics.csv` in the run folder, for spreadsheets and pandas. Needs no extra."""

import csv
from io import StringIO

from gmi_drl.files import write_atomically
from gmi_drl.run.folder import RunFolder
from gmi_drl.run.metrics import Row
from gmi_drl.run.writers.tags import scalars

STEP = "iteration"
"""The first column."""


class Csv:
    """Appends each row; columns have the tags of TensorBoard.

    A number that comes later than the first row, such as that of an evaluation, adds a column: then the file is
    written anew. A run that goes on from a checkpoint drops the rows that it repeats.
    """

    def __init__(self, folder: RunFolder) -> None:
        self._path = folder.path / "metrics.csv"
        self._rows: list[dict[str, str]] = []
        if self._path.exists():
            with self._path.open(newline="", encoding="utf-8") as file:
                self._rows = [row for row in csv.DictReader(file) if (row.get(STEP) or "").isdecimal()]
        self._columns = list(self._rows[0]) if self._rows else [STEP]
        self._is_current = False

    def write(self, row: Row) -> None:
        """See `Writer.write`."""
        cells = {STEP: str(row["iteration"]), **{tag: repr(value) for tag, value in scalars(row).items()}}
        kept = [earlier for earlier in self._rows if int(earlier[STEP]) < row["iteration"]]
        more = [name for name in cells if name not in self._columns]
        is_appended = self._is_current and not more and len(kept) == len(self._rows)
        self._columns += more
        self._rows = [*kept, cells]
        if is_appended:
            with self._path.open("a", encoding="utf-8") as file:
                file.write(self._text([cells], header=False))
        else:
            write_atomically(self._path, self._text(self._rows, header=True))
        self._is_current = True

    def close(self) -> None:
        """See `Writer.close`: nothing is open."""

    def _text(self, rows: list[dict[str, str]], header: bool) -> str:
        text = StringIO()
        table = csv.DictWriter(text, self._columns, restval="", lineterminator="\n")
        if header:
            table.writeheader()
        table.writerows(rows)
        return text.getvalue()
