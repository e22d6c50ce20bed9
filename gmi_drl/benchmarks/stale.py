"""Results whose measured code has changed since they were measured.

A result is stale if the code that its case measures (`cases.MEASURED`), or that it measures with (its own module and
those of `cases` that this imports), differs from that of the commit at which it was measured (`canonical_code`). Other
code that is only imported does not count. A result is also stale if that code is not known: measured with uncommitted
changes, or at a commit that this repository does not have. Code that has only moved or was renamed is the same
(`moves`).
"""

from collections.abc import Mapping
from pathlib import Path

from gmi_drl.benchmarks.canonical_code import differs
from gmi_drl.benchmarks.cases import MEASURED, MODULES
from gmi_drl.benchmarks.measured import Paths
from gmi_drl.benchmarks.result import Result
from gmi_drl.benchmarks.sources import Sources, archive_of, archived, git, modules_in, working_tree
from gmi_drl.errors import MachineError

ROOT = Path(__file__).resolve().parents[2]
CASES = "gmi_drl.benchmarks.cases."

UNTIMED = (f"{CASES}common.requirements",)
"""Modules of cases that only say what a machine must have."""


def stale(
    results: Mapping[str, Result],
    root: Path = ROOT,
    measured: Mapping[str, Paths] = MEASURED,
    modules: Mapping[str, str] = MODULES,
) -> dict[str, str]:
    """The stale results by name, each with the reason in a sentence.

    Args:
        results: Results by the names of their files.
        root: A checkout with its history.
        measured: The files and folders that cases measure, by the cases' names.
        modules: The modules in which the cases are made.

    Raises:
        MachineError: if this is no checkout, git is not installed, or the table of moves has a wrong line.
    """
    git(root, "rev-parse", "HEAD")
    now = working_tree(root)
    commits = {commit: _sources(root, commit, now) for commit in {result.machine.commit for result in results.values()}}
    files = {
        case: sorted({*files_of(now, measured[case]), *own_files(now, modules.get(case, ""))})
        for case in {result.case.name for result in results.values()}
    }
    reasons = {
        name: _reason(result.machine.commit, commits[result.machine.commit], now, files[result.case.name])
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


def _reason(commit: str, then: Sources | str, now: Sources, files: list[str]) -> str | None:
    if isinstance(then, str):
        return then
    first = next((file for file in files if differs(then, now, file)), None)
    return f"measured at {commit}; since then {first} has changed" if first else None


def files_of(sources: Sources, measured: Paths) -> list[str]:
    """The files that measured paths name, in order; of a folder all within it."""
    folders = tuple(path for path in measured if path.endswith("/"))
    within = {file for file in sources.files if folders and file.startswith(folders)}
    return sorted(within | {path for path in measured if not path.endswith("/")})


def own_files(sources: Sources, module: str) -> list[str]:
    """The files of a case's module and of the modules of cases that it names, and these in turn, in order."""
    found, waiting = set[str](), [module]
    while waiting:
        file = sources.file_of(waiting.pop())
        if file is None or file in found:
            continue
        found.add(file)
        named = modules_in(sources.files[file])
        waiting += [name for name in named if name.startswith(CASES) and name not in UNTIMED]
    return sorted(found)
