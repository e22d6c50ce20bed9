"""Parts of Markdown pages."""

from collections.abc import Iterable, Sequence

GENERATED = "*Generated from the code by `make docs`.*\n"
"""Stands below the title of each generated page."""


def table(titles: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table; line breaks and bars within cells do no harm."""
    lines = [titles, ["---"] * len(titles), *rows]
    return "\n".join(f"| {' | '.join(map(cell, line))} |" for line in lines) + "\n"


def cell(text: str) -> str:
    """Text for a cell of a table."""
    return " ".join(text.replace("|", "\\|").split())


def page(title: str, *parts: str) -> str:
    """A generated page."""
    return "\n".join([f"# {title}\n", GENERATED, *parts])
