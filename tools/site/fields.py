"""What stands below the fields of classes in the source, which Python itself drops."""

import ast
import inspect
import textwrap
from functools import cache


@cache
def field_docs(cls: type) -> dict[str, str]:
    """The docstrings of the fields of a class and of its bases, by the fields' names."""
    found: dict[str, str] = {}
    for base in reversed(cls.__mro__):
        if base.__module__.startswith("gmi_drl."):
            found |= _own_docs(base)
    return found


def _own_docs(cls: type) -> dict[str, str]:
    (tree,) = ast.parse(textwrap.dedent(inspect.getsource(cls))).body
    assert isinstance(tree, ast.ClassDef)
    pairs = zip(tree.body, tree.body[1:], strict=False)
    return {
        field.target.id: inspect.cleandoc(text.value.value)
        for field, text in pairs
        if isinstance(field, ast.AnnAssign)
        and isinstance(field.target, ast.Name)
        and isinstance(text, ast.Expr)
        and isinstance(text.value, ast.Constant)
        and isinstance(text.value.value, str)
    }
