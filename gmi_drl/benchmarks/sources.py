"""The source files of a checkout or of one of its commits, and the places of their names today."""

import ast
import re
import subprocess
import tarfile
from collections.abc import Iterable, Mapping
from functools import cache, cached_property
from io import BytesIO
from pathlib import Path

import gmi_drl
from gmi_drl.benchmarks.moves import TABLE, Moves, module_of, moves_since
from gmi_drl.errors import MachineError

PACKAGE = gmi_drl.__name__
DRIVERS = "benchmarks/peers"
"""The folder of the drivers of other libraries' trainings, which are no modules of the package."""

LOCATION = re.compile(rf"({PACKAGE}(?:\.\w+)+)(?::(\w+))?")
"""A string that names a module, or a class of one."""

GIT_S = 60.0
_KINDS = (".py", ".txt")


class Sources:
    """Source files by their paths in the checkout.

    Args:
        files: Contents by path: the package and the drivers of other libraries; of a commit all Python and text files.
        moves: Moves and renames since then.
    """

    def __init__(self, files: Mapping[str, str], moves: Moves) -> None:
        self.files, self.moves = files, moves
        self._paths = {module_of(path): path for path in files}

    def file_of(self, module: str) -> str | None:
        """The path of a module's file; None if it is not here."""
        return self._paths.get(module)

    def place(self, dotted: str) -> str:
        """The place today, `module:name`, of a full dotted name. Names of other packages are returned unchanged.

        A name that a module imports from another one has the place in the module that defines it.
        """
        module, name, more = self._split(dotted)
        if not module:
            return dotted
        defined = reexported(self.files[self._paths[module]]).get(name, dotted)
        if defined not in (dotted, f"{module}.{name}"):
            return self.place(f"{defined}.{more}" if more else defined)
        module, name = self.moves.now(module, name)
        return f"{module}:{name}.{more}" if more else f"{module}:{name}"

    @cached_property
    def modules_today(self) -> dict[str, set[str]]:
        """`{path: modules}`: where the code of each file is today; several modules if it was split."""
        return {path: self.moves.modules(module) for module, path in self._paths.items()}

    def _split(self, dotted: str) -> tuple[str, str, str]:
        """Split a full name into the longest module, a name in it, and attributes of that; all empty if no module."""
        parts = dotted.split(".")
        for count in range(len(parts), 0, -1):
            module = ".".join(parts[:count])
            if module in self._paths:
                name, _, more = ".".join(parts[count:]).partition(".")
                return module, name, more
        return "", "", ""


def working_tree(root: Path) -> Sources:
    """The sources in the working tree of a checkout."""
    drivers = [file for kind in _KINDS for file in (root / DRIVERS).rglob(f"*{kind}")]
    files = [*(root / PACKAGE).rglob("*.py"), *drivers, *root.glob(TABLE)]
    return Sources({str(file.relative_to(root)): file.read_text() for file in files}, Moves())


def archive_of(root: Path, commit: str) -> bytes:
    """All files of a commit as a tar archive.

    Raises:
        MachineError: if the repository does not have the commit.
    """
    return git(root, "archive", "--format=tar", commit)


def archived(content: bytes, now: Sources) -> Sources:
    """The sources in the tar archive of a commit. The moves since then are read from the table of `now`.

    Raises:
        MachineError: if that table has a wrong line.
    """
    with tarfile.open(fileobj=BytesIO(content)) as archive:
        members = (member for member in archive if member.isfile() and member.name.endswith(_KINDS))
        files = {member.name: archive.extractfile(member).read().decode() for member in members}  # type: ignore[union-attr]
    return Sources(files, moves_since(files, now.files))


def git(root: Path, *arguments: str) -> bytes:
    """Run git. Returns its output.

    Raises:
        MachineError: if git fails or is not installed.
    """
    line = ["git", "-C", str(root), *arguments]
    try:
        return subprocess.run(line, capture_output=True, timeout=GIT_S, check=True).stdout
    except (OSError, subprocess.SubprocessError) as error:
        reason = (getattr(error, "stderr", None) or str(error).encode()).decode().strip()
        raise MachineError(f"git must read a checkout to find stale results, but failed: {reason}") from None


def bindings(statements: Iterable[ast.AST]) -> tuple[set[str], dict[str, str]]:
    """The names that statements define, and those that they import, with their full names; not within functions."""
    defined: set[str] = set()
    imported: dict[str, str] = {}
    waiting = list(statements)
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            defined.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            defined.add(node.id)
        elif isinstance(node, ast.Import):
            names = [(alias.asname, alias.name) for alias in node.names]
            imported |= {short: full for short, full in names if short}
            imported |= {full.partition(".")[0]: full.partition(".")[0] for short, full in names if not short}
        elif isinstance(node, ast.ImportFrom):
            imported |= {alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names}
        else:
            waiting += ast.iter_child_nodes(node)
    return defined, imported


@cache
def reexported(source: str) -> dict[str, str]:
    """Names that a module has from other modules, with their full names: by imports or by a lazy `__getattr__`."""
    tree = ast.parse(source)
    names = bindings(tree.body)[1]
    if is_lazy(source):
        for table in (node for node in ast.walk(tree) if isinstance(node, ast.Dict)):
            pairs = [(text(key), text(value)) for key, value in zip(table.keys, table.values, strict=True) if key]
            names |= {key: f"{value}.{key}" for key, value in pairs if key and value}
    return names


@cache
def modules_in(source: str) -> frozenset[str]:
    """The full names that a module imports at any level, and the modules that its strings name.

    Of `from a.b import c` both `a.b` and `a.b.c`, since `c` may be a module.
    """
    found = set[str]()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found |= {str(node.module), *(f"{node.module}.{alias.name}" for alias in node.names)}
        elif location := LOCATION.fullmatch(text(node)):
            found.add(location[1])
    return frozenset(found)


def is_lazy(source: str) -> bool:
    """Whether a module imports names only when they are used: by a `__getattr__` at its first level."""
    return "\ndef __getattr__(" in source


def text(node: ast.AST) -> str:
    """The string of a node that is a string constant; empty for other nodes."""
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""
