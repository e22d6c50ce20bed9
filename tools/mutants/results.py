"""What became of each mutant, a line each in a file that a stop leaves whole and that others go on with."""

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
    """Outcomes as far as they still hold.

    What a test noticed holds as long as neither the mutated file nor that of the test changes; what no test noticed
    holds as long as nothing changes.

    Args:
        path: Of the file; rows of before are read.
        digests: Of all files of package and tests, as they are now.
    """

    def __init__(self, path: Path, digests: Mapping[str, str]) -> None:
        self.path, self.digests = path, digests
        rows = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
        self._rows = {row["name"]: row for row in rows}

    def outcome(self, mutant: Mutant) -> str | None:
        """What is known of a mutant; None if nothing is."""
        row = self._rows.get(mutant.name)
        if row is None or row["held"] != self._held(mutant.path, row["by"]):
            return None
        return str(row["outcome"])

    def by(self, mutant: Mutant) -> str:
        """The test that noticed it; empty if none did."""
        return str(self._rows[mutant.name]["by"])

    def add(self, result: Result) -> None:
        """Keep a result."""
        mutant = result.mutant
        row = {"name": mutant.name, "path": mutant.path, "line": mutant.line, "operator": mutant.operator}
        row |= {"outcome": result.outcome, "by": result.by, "held": self._held(mutant.path, result.by)}
        self._rows[mutant.name] = row
        with self.path.open("a") as file:
            file.write(json.dumps(row) + "\n")

    def forget(self, by: str) -> None:
        """Know no more what a test has noticed."""
        self._rows = {name: row for name, row in self._rows.items() if row["by"] != by}
        self.path.write_text("".join(json.dumps(row) + "\n" for row in self._rows.values()))

    def _held(self, path: str, by: str) -> str:
        """A digest of what must stay as it is for a result to hold."""
        files = [path, by.partition("::")[0]] if by else sorted(self.digests)
        return hashlib.sha256(json.dumps([self.digests.get(file) for file in files]).encode()).hexdigest()[:16]
