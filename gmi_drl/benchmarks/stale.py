"""Results whose measured code has changed since they were measured.

A result is stale if the code that its case measures (`cases.MEASURED`) differs from that of the commit at which it was
measured (`canonical_code`). Code that is only imported beside it does not count. A result is also stale if that code is
not known: measured with uncommitted changes, or at a commit that this repository does not have. Code that has only
moved or was renamed is the same (`moves`).
"""

from collections.abc import Mapping
from pathlib import Path

from gmi_drl.benchmarks.canonical_code import differs
from gmi_drl.benchmarks.cases import MEASURED
from gmi_drl.benchmarks.measured import Paths
from gmi_drl.benchmarks.result import Result
from gmi_drl.benchmarks.sources import Sources, archive_of, archived, git, working_tree
from gmi_drl.errors import MachineError

ROOT = Path(__file__).resolve().parents[2]


def stale(results: Mapping[str, Result], root: Path = ROOT, measured: Mapping[str, Paths] = MEASURED) -> dict[str, str]:
    """The stale results by name, each with the reason in a sentence.

    Args:
        results: Results by the names of their files.
        root: A checkout with its history.
        measured: The files and folders that cases measure, by the cases' names.

    Raises:
        MachineError: if this is no checkout, git is not installed, or the table of moves has a wrong line.
    """
    git(root, "rev-parse", "HEAD")
    now = working_tree(root)
    commits = {commit: _sources(root, commit, now) for commit in {result.machine.commit for result in results.values()}}
    reasons = {
        name: _reason(result.machine.commit, commits[result.machine.commit], now, measured[result.case.name])
        for name, result in results.items()
    }
    return {name: reason for name, reason in reasons.items() if reason}


def _sources(root: Path, commit: str, now: Sources) -> Sources | str:
    """The sources of a commit, or why they are not known."""
    if not commit or commit.endswith("-dirty"):
        return "measured with changes that are in no commit"
    try:
        content = archive_of(root, commit)
    except MachineError:
        return f"measured at {commit}, which is not in this repository"
    return archived(content, now)


def _reason(commit: str, then: Sources | str, now: Sources, measured: Paths) -> str | None:
    if isinstance(then, str):
        return then
    first = next((file for file in files_of(now, measured) if differs(then, now, file)), None)
    return f"measured at {commit}; since then {first} has changed" if first else None


def files_of(sources: Sources, measured: Paths) -> list[str]:
    """The files that measured paths name, in order; of a folder all within it."""
    folders = tuple(path for path in measured if path.endswith("/"))
    within = {file for file in sources.files if folders and file.startswith(folders)}
    return sorted(within | {path for path in measured if not path.endswith("/")})
