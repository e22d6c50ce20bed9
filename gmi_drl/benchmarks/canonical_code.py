"""Compares code of two commits in a canonical form, in which moved and renamed code is the same.

Comments, docstrings, layout and the order of definitions and imports do not count. Names that come from modules, also
in strings, are compared by where they are today.
"""

import ast
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache

from gmi_drl.benchmarks.moves import module_of
from gmi_drl.benchmarks.sources import LOCATION, PACKAGE, Sources, bindings, is_lazy, text

CASE = f"{PACKAGE}.benchmarks.case.Case"
WORDS = ("claim", "guard", "floor", "limits", "obstacle", "reference")
"""Arguments of a case that change no measurement."""

_BODIES = ("body", "orelse", "finalbody")
Function = ast.FunctionDef | ast.AsyncFunctionDef


def differs(then: Sources, now: Sources, path: str) -> bool:
    """Whether the code of a file has changed since `then`, wherever it was then.

    If code was split among files or merged from several, all these files are compared as a whole.
    """
    modules, paths = {module_of(path)}, set[str]()
    while found := {old for old, today in then.modules_today.items() if today & modules} - paths:
        paths |= found
        modules |= set().union(*(then.modules_today[old] for old in paths))
    files = {file for module in modules if (file := now.file_of(module))}
    texts = [{sources.files[name] for name in names} for sources, names in ((then, paths), (now, files))]
    if not path.endswith(".py") or (not then.moves.lines and texts[0] == texts[1]):
        return texts[0] != texts[1]
    if not paths and is_lazy(now.files[path]):  # it re-exports names, which are compared where they are used
        return False
    is_one = len(paths) == len(files) == 1  # else imports differ: each file imports what its part needs
    return _all(then, paths, is_one) != _all(now, files, is_one)


def _all(sources: Sources, paths: set[str], has_imports: bool) -> Counter[str]:
    found: Counter[str] = Counter()
    for path in paths:
        found += _statements(sources, path, has_imports)
    return found


@cache
def _statements(sources: Sources, path: str, has_imports: bool) -> Counter[str]:
    """The canonical statements at a file's first level, with their counts."""
    tree, module = ast.parse(sources.files[path]), module_of(path)
    defined, imported = bindings(tree.body)
    names = {name: f"{module}.{name}" for name in defined} | imported
    body: list[ast.stmt] = _Canonical(sources, names).visit(tree).body
    for statement in body:
        if isinstance(statement, Function | ast.ClassDef):
            statement.name = sources.place(f"{module}.{statement.name}")
    return Counter(ast.dump(statement) for statement in body if has_imports or not isinstance(statement, ast.Import))


class _Canonical(ast.NodeTransformer):
    """Replaces names that come from modules by their full names of today.

    Args:
        sources: The sources in which full names are looked up.
        names: Full names by the names of the first level; None for a name that is local to a function or class.
    """

    def __init__(self, sources: Sources, names: Mapping[str, str | None]) -> None:
        self._sources = sources
        self._names = self._names_of_functions = names

    def generic_visit(self, node: ast.AST) -> ast.AST:
        super().generic_visit(node)
        for field in _BODIES:
            if isinstance(body := getattr(node, field, None), list):
                setattr(node, field, _tidy(body))
        return node

    def visit_Import(self, node: ast.Import) -> ast.AST:
        return self._import(*(alias.name for alias in node.names))

    def visit_ImportFrom(self, node: ast.ImportFrom) -> ast.AST:
        return self._import(*(f"{node.module}.{alias.name}" for alias in node.names))

    def _import(self, *names: str) -> ast.Import:
        """An import of the modules only: the names imported from them count where they are used."""
        return ast.Import([ast.alias(self._sources.place(name).partition(":")[0]) for name in names])

    def visit_Name(self, node: ast.Name) -> ast.AST:
        full = self._names.get(node.id)
        return ast.Name(self._sources.place(full), node.ctx) if full else node

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        full = self._full(node)
        return ast.Name(self._sources.place(full), node.ctx) if full else self.generic_visit(node)

    def _full(self, node: ast.AST) -> str | None:
        if isinstance(node, ast.Attribute):
            owner = self._full(node.value)
            return owner and f"{owner}.{node.attr}"
        return self._names.get(node.id) if isinstance(node, ast.Name) else None

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        location = LOCATION.fullmatch(text(node))
        return ast.Constant(self._sources.place(".".join(filter(None, location.groups())))) if location else node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        if (self._full(node.func) or "").endswith(".Registry"):  # its strings are names of groups of entry points
            node.args = [argument if text(argument) else self.visit(argument) for argument in node.args]
            return node
        if self._full(node.func) == CASE:
            node.keywords = [keyword for keyword in node.keywords if keyword.arg not in WORDS]
        return self.generic_visit(node)

    def visit_arg(self, node: ast.arg) -> ast.AST:
        node.annotation = _unquoted(node.annotation)
        return self.generic_visit(node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        node.annotation = _unquoted(node.annotation) or node.annotation
        return self.generic_visit(node)

    def visit_FunctionDef(self, node: Function) -> ast.AST:
        node.returns = _unquoted(node.returns)
        arguments = {one.arg for one in ast.walk(node.args) if isinstance(one, ast.arg)}
        return self._scope(node, arguments, is_class=False)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> ast.AST:
        return self.visit_FunctionDef(node)

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        return self._scope(node, set(), is_class=True)

    def _scope(self, node: Function | ast.ClassDef, arguments: set[str], *, is_class: bool) -> ast.AST:
        body, node.body = node.body, []
        self.generic_visit(node)  # decorators, defaults and bases belong to the scope around it
        defined, imported = bindings(body)
        around = self._names_of_functions
        names = {**around, **dict.fromkeys(arguments | defined), **imported}
        with self._within(names, around if is_class else names):
            node.body = _tidy([self.visit(statement) for statement in body])
        return node

    @contextmanager
    def _within(self, names: Mapping[str, str | None], of_functions: Mapping[str, str | None]) -> Iterator[None]:
        before = self._names, self._names_of_functions
        self._names, self._names_of_functions = names, of_functions
        yield
        self._names, self._names_of_functions = before


def _tidy(body: list[ast.stmt]) -> list[ast.stmt]:
    """The statements without docstrings, with all imports first, in one statement."""
    imported = {alias.name for statement in body if isinstance(statement, ast.Import) for alias in statement.names}
    rest = [one for one in body if not isinstance(one, ast.Import) and not _is_docstring(one)]
    return [ast.Import([ast.alias(name) for name in sorted(imported)]), *rest] if imported else rest


def _is_docstring(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and bool(text(statement.value))


def _unquoted(annotation: ast.expr | None) -> ast.expr | None:
    return ast.parse(text(annotation), mode="eval").body if annotation and text(annotation) else annotation
