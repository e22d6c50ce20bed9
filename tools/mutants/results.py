"""The outcome of each mutant, as a line in a file that stays whole if a run is stopped."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tools.mutants.operators import Mutant


@dataclass(frozen=True)
class Result:
    """The outcome of one mutant: `killed`, `hung`, `survived` or `not run`; `by` is the test that noticed it."""

    mutant: Mutant
    outcome: str
    by: str


class Results:
    """The outcomes that are still valid.

    An outcome with a test that noticed the mutant is valid until the mutated file or that of the test changes. An
    outcome without one is valid until anything changes.

    Args:
        path: Of the file; existing rows are read.
        digests: The current ones of all files of package and tests.
    """

    def __init__(self, path: Path, digests: Mapping[str, str]) -> None:
        self.path, self.digests = path, digests
        rows = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
        self._rows = {row["name"]: row for row in rows}

    def outcome(self, mutant: Mutant) -> str | None:
        """The outcome of a mutant; None if it must be tried."""
        row = self._rows.get(mutant.name)
        if row is None or row["held"] != self._held(mutant.path, row["by"]):
            return None
        return str(row["outcome"])

    def by(self, mutant: Mutant) -> str:
        """The test that noticed a mutant; empty if none did."""
        return str(self._rows[mutant.name]["by"])

    def add(self, result: Result) -> None:
        """Add a result to the file."""
        mutant = result.mutant
        row = {"name": mutant.name, "path": mutant.path, "line": mutant.line, "operator": mutant.operator}
        row |= {"outcome": result.outcome, "by": result.by, "held": self._held(mutant.path, result.by)}
        self._rows[mutant.name] = row
        with self.path.open("a") as file:
            file.write(json.dumps(row) + "\n")

    def forget(self, by: str) -> None:
        """Drop all outcomes for which this test was named."""
        self._rows = {name: row for name, row in self._rows.items() if row["by"] != by}
        self.path.write_text("".join(json.dumps(row) + "\n" for row in self._rows.values()))

    def _held(self, path: str, by: str) -> str:
        """A digest of the files on which the validity of a result depends."""
        files = [path, by.partition("::")[0]] if by else sorted(self.digests)
        return hashlib.sha256(json.dumps([self.digests.get(file) for file in files]).encode()).hexdigest()[:16]
