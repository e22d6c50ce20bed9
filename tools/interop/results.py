"""The results of all trials, kept in docs/interop.json, and the page made of them."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gmi_drl.files import write_atomically

HEAD = """# Real clients

What has really run, on a CPU: `make interop` trains other libraries' tasks by `gmi-drl train`, with few environments
and two iterations or five, where these libraries are installed, and writes this page. It is not part of `make test`.

"Replicas alike": a run of two GMIs compares a digest of all that its replicas must hold alike (weights, optimizer,
statistics of observations) at its first and its last checkpoint and fails where they differ by a bit.
"""

ABOUT = {
    "mjlab": """
Every task of its registry, by `gmi-drl train --task mjlab:TASK --algo rsl_rl --rsl-rl-config FILE`. FILE is mjlab's own
configuration of the task as its `train` dumps it (`params/agent.yaml`), unchanged; its logger, wandb, is left out with
a warning where it cannot start. Beside it mjlab's own `train` runs with as many environments, the same seed and as many
threads of torch's, and the weights and statistics of both are compared. Tasks that follow a motion, which mjlab does
not ship, got one that the tool makes, in which the robot stands.
""",
}
"""Text of a section, by library."""

Section = dict[str, Any]


class Results:
    """The sections by client: `versions`, and `rows` by task.

    Args:
        path: Of the file; missing at first.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.sections: dict[str, Section] = json.loads(path.read_text()) if path.exists() else {}

    def add(self, client: str, versions: Mapping[str, str], task: str, row: Mapping[str, str]) -> None:
        """Keep the row of a task, and drop rows of other versions."""
        section = self.sections.setdefault(client, {"versions": dict(versions), "rows": {}})
        if section["versions"] != versions:
            section |= {"versions": dict(versions), "rows": {}}
        section["rows"][task] = dict(row)
        write_atomically(self.path, (json.dumps(self.sections, indent=1) + "\n").encode())

    def has(self, client: str, versions: Mapping[str, str], task: str) -> bool:
        """Whether the task has a row with these versions."""
        section = self.sections.get(client)
        return section is not None and section["versions"] == versions and task in section["rows"]

    def page(self) -> str:
        """The page in Markdown."""
        parts = [HEAD]
        for client, section in self.sections.items():
            versions = ", ".join(f"{package} {version}" for package, version in section["versions"].items())
            parts += [f"## {client}", f"{versions}.", *filter(None, [ABOUT.get(client)]), table(section["rows"])]
        return "\n\n".join(part.strip() for part in parts) + "\n"


def table(rows: Mapping[str, Mapping[str, str]]) -> str:
    """A table with a row for each task; columns in the order of their first appearance."""
    columns = list(dict.fromkeys(column for row in rows.values() for column in row))
    lines = [_line(["task", *columns]), "|---" * (len(columns) + 1) + "|"]
    lines += [_line([task, *(row.get(column, "") for column in columns)]) for task, row in rows.items()]
    return "\n".join(lines)


def has_failed(row: Mapping[str, str]) -> bool:
    """Whether a trial in the row failed."""
    return any("fail" in told or "differ" in told for told in row.values())


def _line(cells: list[str]) -> str:
    return f"| {' | '.join(cell.replace('|', '/') for cell in cells)} |"
