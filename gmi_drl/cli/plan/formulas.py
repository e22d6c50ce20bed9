"""What `gmi-drl plan --explain` prints: formulas one below the other, in lines of up to 100 columns."""

from collections.abc import Iterator, Sequence
from textwrap import wrap
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gmi_drl.scheduler.explain.explain import Explained
    from gmi_drl.scheduler.explain.formulas import Formula

WIDTH = 100


def explained_lines(candidates: "Sequence[Explained]") -> Iterator[str]:
    """The lines of each candidate: its formulas with symbols, then numbers, then results, and the verdict."""
    for candidate in candidates:
        yield candidate.title
        for formula in candidate.formulas:
            yield from _formula_lines(formula)
        yield from _wrapped(f"so: {candidate.verdict}", "  ")
        yield ""


def _formula_lines(formula: "Formula") -> Iterator[str]:
    yield f"  {formula.name}"
    for place, line in enumerate(formula.lines):
        yield from _wrapped(line, "    = " if place else "      ")
    if formula.remark:
        yield from _wrapped(f"({formula.remark})", "      ")


def _wrapped(text: str, indent: str) -> list[str]:
    return wrap(text, WIDTH, initial_indent=indent, subsequent_indent=" " * len(indent), break_long_words=False)
