"""The HTML around the parts of a report: the document, tables, folded text."""

from collections.abc import Sequence
from html import escape

from gmi_drl import __version__
from gmi_drl.results.report.assets import SCRIPT, STYLE

POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:; media-src data:"
"""What a browser lets the page load: nothing but itself."""


def document(title: str, parts: Sequence[str]) -> str:
    """A whole page that needs no network and no other file. Parts are HTML."""
    foot = f'<p class="soft">Written by gmi-drl {escape(__version__)}. This file needs no network.</p>'
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'
        f"<title>{escape(title)}</title><style>{STYLE}</style></head><body>"
        f"{''.join(parts)}{foot}<script>{SCRIPT}</script></body></html>\n"
    )


def folded(title: str, text: str) -> str:
    """Text that is shown when its title is clicked."""
    return f"<details><summary>{escape(title)}</summary><pre>{escape(text)}</pre></details>"


def table(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table of plain text; without titles it has no head."""
    head = f"<tr>{''.join(f'<th>{escape(title)}</th>' for title in titles)}</tr>" if titles else ""
    body = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in rows)
    return f'<div class="scroll"><table>{head}{body}</table></div>'
