"""Results whose code has changed since they were measured.

A case depends on the files of the package that its module imports, and these in turn, wherever in a file the import
stands; a text that is a module's name, as roles and adapters are given, counts as an import. What the entries of a
registry name so, GMIs load: it counts for cases that start some. That is read from the sources, so it is more than a
run of the case loads, never less. If it runs other libraries, it depends on their
drivers, what these import, and pins, too. What only describes or draws (`bench.case`, `bench.plot`), and comments,
docstrings and form, change no figure.

A result is stale if one of these files differs from the commit at which it was measured, or if that is not known:
measured between commits, or at one that this repository does not have.
"""

import ast
import re
import subprocess
from collections.abc import Mapping
from functools import cache
from itertools import chain
from pathlib import Path

from gmi_drl.bench.cases import MODULES
from gmi_drl.bench.result import Result
from gmi_drl.errors import MachineError

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = "gmi_drl"
DESCRIBES = frozenset({PACKAGE, *(f"{PACKAGE}.bench.{name}" for name in ("case", "cases", "plot"))})
DRIVERS, RUNS_DRIVERS = "benchmarks/peers", f"{PACKAGE}.bench.peers"
STARTS_GMIS = f"{PACKAGE}/launch/gmi_process.py"
ENTRIES = tuple(f"{PACKAGE}/{name}" for name in ("backends", "learners", "reductions", "templates", "writers"))
"""Where entries of registries are."""

GIT_S = 60.0
_LOCATION = re.compile(rf"({PACKAGE}(?:\.\w+)+)(?::\w+)?")
_HAS_DOCSTRING = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)


def stale(results: Mapping[str, Result], root: Path = ROOT, modules: Mapping[str, str] = MODULES) -> dict[str, str]:
    """Why each result that is stale is so, in a sentence, by its name.

    Args:
        results: By the names of their files.
        root: A checkout with its history.
        modules: Of the cases, by the cases' names.

    Raises:
        MachineError: if this is no checkout, or there is no git.
    """
    _git(root, "rev-parse", "HEAD")
    reasons = {name: _reason(root, result, modules[result.case.name]) for name, result in results.items()}
    return {name: reason for name, reason in reasons.items() if reason}


def code_of(root: Path, module: str) -> set[str]:
    """The files, relative to `root`, that a case in this module depends on."""
    found = _reached(root, module, by_entries=False)
    return _reached(root, module, by_entries=True) if STARTS_GMIS in found else found


def _reached(root: Path, module: str, *, by_entries: bool) -> set[str]:
    found: dict[str, Path] = {}
    waiting = [module]
    while waiting:
        name = waiting.pop()
        file = _file_of(root, name)
        if file is not None and name not in found and name not in DESCRIBES:
            found[name] = file
            has_locations = by_entries or not str(file.relative_to(root)).startswith(ENTRIES)
            waiting += [*_imports(file.read_text(), has_locations), name.rpartition(".")[0]]
            if name == RUNS_DRIVERS:
                waiting += chain.from_iterable(
                    _imports(driver.read_text(), has_locations=True) for driver in (root / DRIVERS).rglob("*.py")
                )
    drivers = (root / DRIVERS).rglob("*.*") if RUNS_DRIVERS in found else ()
    return {str(file.relative_to(root)) for file in (*found.values(), *drivers)}


def _reason(root: Path, result: Result, module: str) -> str | None:
    commit = result.machine.commit
    if not commit or commit.endswith("-dirty"):
        return "measured with changes that are in no commit"
    try:
        changed = set(_git(root, "diff", "--name-only", commit).splitlines())
    except MachineError:
        return f"measured at {commit}, which is not in this repository"
    different = (file for file in sorted(changed & code_of(root, module)) if _differs(root, commit, file))
    first = next(different, None)
    return f"measured at {commit}; since then {first} has changed" if first else None


def _differs(root: Path, commit: str, file: str) -> bool:
    """Whether a file that git calls changed does other things than it did."""
    if not file.endswith(".py"):
        return True
    try:
        then = _git(root, "show", f"{commit}:{file}")
    except MachineError:  # it is new
        return True
    return _meaning(then) != _meaning((root / file).read_text())


@cache
def _meaning(source: str) -> str:
    """A source without comments, docstrings and form."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, _HAS_DOCSTRING) and ast.get_docstring(node) is not None:
            del node.body[0]
    return ast.dump(tree)


@cache
def _imports(source: str, has_locations: bool) -> frozenset[str]:
    """Names that may be modules of the package: what is imported, what it is imported from, and locations as text."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
        elif has_locations and isinstance(node, ast.Constant) and isinstance(node.value, str):
            location = _LOCATION.fullmatch(node.value)
            names |= {location[1]} if location else set()
    return frozenset(names)


def _file_of(root: Path, module: str) -> Path | None:
    path = root.joinpath(*module.split(".")) if module.startswith(PACKAGE) else root
    return next((file for file in (path.with_suffix(".py"), path / "__init__.py") if file.is_file()), None)


def _git(root: Path, *arguments: str) -> str:
    line = ["git", "-C", str(root), *arguments]
    try:
        return subprocess.run(line, capture_output=True, text=True, timeout=GIT_S, check=True).stdout
    except (OSError, subprocess.SubprocessError) as error:
        told = getattr(error, "stderr", None) or str(error)
        raise MachineError(f"whether results are stale is told by git in a checkout: {told.strip()}") from None
