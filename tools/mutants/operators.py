"""The changes that make mutants: common mistakes, as replacements in the text of a file."""

import ast
import hashlib
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Mult,
    ast.BitAnd: ast.BitOr,  # not the other way: `|` joins types and dictionaries
}
NAMES = {"min": "max", "max": "min", "any": "all", "all": "any"}
SMALL = (0, 1, 2)
"""Whole numbers that count or choose something. Larger ones are choices (deadlines, sizes) that no test can hold."""

OPERATORS = {
    "comparison": "`==` to `!=`, `<` to `<=`, `is` to `is not`, `in` to `not in`, and back",
    "arithmetic": "`+` to `-`, `*` to `/`, and back; `//` and `%` to `*`, `&` to `|`; in `+=` and the like, too",
    "boolean": "`and` to `or` and back; `not x` to `x`; `True` to `False` and back",
    "condition": "what `if`, `while` and `... if ... else ...` ask, negated, if nothing above does that; "
    "the `if` of a comprehension always true",
    "number": "0, 1 and 2 plus one",
    "name": "`min` to `max`, `any` to `all`, and back",
    "call gone": "a call that stands by itself is left out",
    "raise gone": "an error is not raised",
    "body gone": "a function that returns nothing does nothing",
}
"""What each operator does. Texts, types, imports, assertions and messages of errors are never changed."""


@dataclass(frozen=True)
class Mutant:
    """One change: characters `start` to `end` of a file become `replacement`.

    `name` does not depend on the line number, only on the file, the function, and the changed piece.
    """

    path: str
    line: int
    operator: str
    original: str
    replacement: str
    start: int
    end: int
    name: str

    def applied(self, text: str) -> str:
        """The text of the file with this change."""
        return text[: self.start] + self.replacement + text[self.end :]


def mutants_of(path: Path) -> list[Mutant]:
    """All changes to one file that leave it valid Python."""
    data = path.read_bytes()
    starts = [0]
    for row in data.splitlines(keepends=True):
        starts.append(starts[-1] + len(row))

    def place(line: int | None, column: int | None) -> int:
        """The index of a character, given its line and ast's offset in bytes."""
        return len(data[: starts[(line or 1) - 1] + (column or 0)].decode())

    text, found, seen = data.decode(), [], Counter[str]()
    for change in _changes(ast.parse(text), ""):
        start = place(change.first.lineno, change.first.col_offset)
        end = place(change.last.end_lineno, change.last.end_col_offset)
        fact = f"{path}/{change.scope}/{change.operator}/{text[start:end]}/{change.replacement}"
        seen[fact] += 1
        name = hashlib.sha256(f"{fact}/{seen[fact]}".encode()).hexdigest()[:12]
        mutant = Mutant(
            str(path), change.first.lineno, change.operator, text[start:end], change.replacement, start, end, name
        )
        if _is_valid(mutant.applied(text)):
            found.append(mutant)
    return found


def sample(mutants: Iterable[Mutant], size: int, seed: int) -> list[Mutant]:
    """Choose `size` mutants by the hash of their names. Other changes to the files alter the sample only a little."""
    return sorted(mutants, key=lambda mutant: hashlib.sha256(f"{seed}/{mutant.name}".encode()).digest())[:size]


class _Change(NamedTuple):
    """The text from the start of one node to the end of another is replaced."""

    scope: str
    operator: str
    first: ast.expr | ast.stmt
    last: ast.expr | ast.stmt
    replacement: str


def _changes(node: ast.AST, scope: str) -> Iterator[_Change]:
    """Yield the changes to a node and to all nodes below it."""
    if isinstance(node, ast.JoinedStr | ast.Assert) or _is_not_run(node):
        return
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        scope = f"{scope}.{node.name}".lstrip(".")
    for operator, target, replacement in _replacements(node):
        yield _Change(scope, operator, target, target, replacement)
    if isinstance(node, ast.FunctionDef) and ast.unparse(node.returns or node) == "None":
        body = _without_text(node.body)
        if body:
            yield _Change(scope, "body gone", body[0], body[-1], "return")
    for child in _children(node):
        yield from _changes(child, scope)


def _replacements(node: ast.AST) -> Iterator[tuple[str, ast.expr | ast.stmt, str]]:
    """Yield the operator, the node to replace, and its replacement."""
    match node:
        case ast.Compare(ops=[operator]) if type(operator) in COMPARISONS:
            yield "comparison", node, _text(node, ops=[COMPARISONS[type(operator)]()])
        case ast.BinOp(left=left, right=right) if _is_text(left) or _is_text(right):
            pass  # texts are put together, and paths
        case ast.BinOp(op=operation) | ast.AugAssign(op=operation) if type(operation) in ARITHMETIC:
            yield "arithmetic", node, _text(node, op=ARITHMETIC[type(operation)]())
        case ast.BoolOp(op=joint):
            yield "boolean", node, _text(node, op=ast.Or() if isinstance(joint, ast.And) else ast.And())
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            yield "boolean", node, f"({ast.unparse(operand)})"
        case ast.Constant(value=bool(value)):
            yield "boolean", node, str(not value)
        case ast.Constant(value=int(number)) if number in SMALL:
            yield "number", node, str(number + 1)
        case ast.Name(id=name) if name in NAMES:
            yield "name", node, NAMES[name]
        case ast.If(test=test) | ast.While(test=test) | ast.IfExp(test=test) if not _is_turned_round(test):
            yield "condition", test, f"(not ({ast.unparse(test)}))"
        case ast.comprehension(ifs=[condition, *_]):
            yield "condition", condition, "True"
        case ast.Expr(value=ast.Call()):
            yield "call gone", node, "pass"
        case ast.Raise():
            yield "raise gone", node, "pass"


def _children(node: ast.AST) -> Iterator[ast.AST]:
    """The nodes below one that may be changed: no types, decorators, docstrings or messages of errors."""
    match node:
        case ast.FunctionDef(args=arguments, body=body):
            yield from (default for default in (*arguments.defaults, *arguments.kw_defaults) if default is not None)
            yield from _without_text(body)
        case ast.ClassDef(body=body):
            yield from _without_text(body)
        case ast.AnnAssign(value=value):
            yield from [] if value is None else [value]
        case ast.Raise():
            return
        case _:
            yield from ast.iter_child_nodes(node)


def _is_not_run(node: ast.AST) -> bool:
    """Whether a node is an `if` for type checkers, or for running the module as a program."""
    return isinstance(node, ast.If) and ast.unparse(node.test) in ("TYPE_CHECKING", "__name__ == '__main__'")


def _is_turned_round(test: ast.expr) -> bool:
    """Whether another operator already negates this condition."""
    match test:
        case ast.Compare(ops=[ast.Eq() | ast.NotEq() | ast.Is() | ast.IsNot() | ast.In() | ast.NotIn()]):
            return True
        case ast.UnaryOp(op=ast.Not()):
            return True
    return False


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str))


def _text(node: ast.expr | ast.stmt, **fields: object) -> str:
    """The source of a node with some fields replaced."""
    text = ast.unparse(type(node)(**dict(ast.iter_fields(node)) | fields))
    return f"({text})" if isinstance(node, ast.expr) else text


def _without_text(body: list[ast.stmt]) -> list[ast.stmt]:
    """A body without its docstrings."""
    return [part for part in body if not (isinstance(part, ast.Expr) and isinstance(part.value, ast.Constant))]


def _is_valid(text: str) -> bool:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            compile(text, "mutant", "exec", dont_inherit=True)
        except (SyntaxError, ValueError):
            return False
    return True
