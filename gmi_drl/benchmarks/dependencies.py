"""The code that a case depends on, found in the sources: never less than a run loads, possibly more.

A case depends on the files of the package that its module imports anywhere, and on what these import. A string that
names a module, as for roles and adapters, counts as an import. Modules that the entries of a registry name in this way
are loaded by GMIs, so they count only for cases that start GMIs. A case that runs other libraries also depends on their
drivers, on what these import, and on the pinned versions. Modules that only describe or draw cases do not count.
"""

import ast
from functools import cache

from gmi_drl.benchmarks import case, cases, peers, plot
from gmi_drl.benchmarks.canonical_code import LOCATION
from gmi_drl.benchmarks.sources import DRIVERS, PACKAGE, Sources, text
from gmi_drl.launch.processes import gmi_process

DESCRIBES = frozenset({PACKAGE, *(module.__name__ for module in (case, cases, plot))})
STARTS_GMIS, RUNS_DRIVERS = gmi_process.__name__, peers.__name__


def code_of(sources: Sources, module: str) -> set[str]:
    """The paths of the files that a case in this module depends on."""
    found = _reached(sources, module, frozenset(_entries(sources)))
    if STARTS_GMIS in found:
        found = _reached(sources, module, frozenset())
    drivers = _drivers(sources) if RUNS_DRIVERS in found else ()
    return {*found.values(), *drivers}


def _reached(sources: Sources, module: str, entries: frozenset[str]) -> dict[str, str]:
    """`module` and all modules that it reaches, with their files. Strings in the files `entries` do not count."""
    found: dict[str, str] = {}
    waiting = [module]
    while waiting:
        name = waiting.pop()
        file = sources.file_of(name)
        if file is not None and name not in found and name not in DESCRIBES:
            found[name] = file
            waiting += [*_imports(sources.files[file], file not in entries), name.rpartition(".")[0]]
            if name == RUNS_DRIVERS:
                drivers = (driver for driver in _drivers(sources) if driver.endswith(".py"))
                waiting += [name for driver in drivers for name in _imports(sources.files[driver], has_locations=True)]
    return found


def _drivers(sources: Sources) -> list[str]:
    return [file for file in sources.files if file.startswith(f"{DRIVERS}/")]


def _entries(sources: Sources) -> set[str]:
    """The files with entries of registries: those that make a registry, and what these import from their folder."""
    makers = [file for file in sources.files if file.endswith(".py") and _makes_registry(sources.files[file])]
    found = set(makers)
    for maker in makers:
        folder = maker.rpartition("/")[0]
        imported = map(sources.file_of, _imports(sources.files[maker], has_locations=False))
        found |= {file for file in imported if file and file.startswith(f"{folder}/")}
    return found


@cache
def _makes_registry(source: str) -> bool:
    calls = (node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call))
    return any(isinstance(call.func, ast.Name) and call.func.id == "Registry" for call in calls)


@cache
def _imports(source: str, has_locations: bool) -> frozenset[str]:
    """Names that may be modules of the package: all names in imports and, if `has_locations`, locations in strings."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
        elif has_locations and (location := LOCATION.fullmatch(text(node))):
            names.add(location[1])
    return frozenset(names)
