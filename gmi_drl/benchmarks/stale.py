"""Results whose code has changed since they were measured.

A result is stale if the code that its case depends on (`dependencies`) differs from that of the commit at which it was
measured (`canonical_code`). It is also stale if that code is not known: measured with uncommitted changes, or at a
commit that this repository does not have. Code that has only moved or was renamed is the same (`moves`).
"""

from collections.abc import Mapping
from pathlib import Path

from gmi_drl.benchmarks.canonical_code import differs
from gmi_drl.benchmarks.cases import MODULES
from gmi_drl.benchmarks.dependencies import code_of
from gmi_drl.benchmarks.result import Result
from gmi_drl.benchmarks.sources import Sources, archive_of, archived, git, working_tree
from gmi_drl.errors import MachineError

ROOT = Path(__file__).resolve().parents[2]


def stale(results: Mapping[str, Result], root: Path = ROOT, modules: Mapping[str, str] = MODULES) -> dict[str, str]:
    """The stale results by name, each with the reason in a sentence.

    Args:
        results: Results by the names of their files.
        root: A checkout with its history.
        modules: The modules of the cases, by the cases' names.

    Raises:
        MachineError: if this is no checkout, git is not installed, or the table of moves has a wrong line.
    """
    git(root, "rev-parse", "HEAD")
    now = working_tree(root)
    commits = {commit: _sources(root, commit, now) for commit in {result.machine.commit for result in results.values()}}
    reasons = {
        name: _reason(result.machine.commit, commits[result.machine.commit], now, modules[result.case.name])
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


def _reason(commit: str, then: Sources | str, now: Sources, module: str) -> str | None:
    if isinstance(then, str):
        return then
    first = next((file for file in sorted(code_of(now, module)) if differs(then, now, file)), None)
    return f"measured at {commit}; since then {first} has changed" if first else None
