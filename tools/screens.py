"""Pictures of a run for the guides, out of runs that were trained: `python -m tools.screens RUN...`.

Writes `docs/guides/live.svg` (the live view of the first run in 140 columns), `compare.svg` and `report.png`; the last
needs Chromium.
"""

import re
import shutil
import subprocess
import sys
import tempfile
from io import StringIO
from pathlib import Path

from rich.console import Console, ConsoleDimensions, RenderableType
from rich.text import Text

from gmi_drl.cli.live_table import live_table
from gmi_drl.run.folder import RunFolder
from gmi_drl.run.metrics import read_metrics
from gmi_drl.run.verdict import RECENT

GUIDES = Path(__file__).parent.parent / "docs" / "guides"
FONT = re.compile(r"@font-face \{.*?\}\s*", re.DOTALL)
"""Fonts that a picture would load from elsewhere; it has a monospaced one without."""

WIDTH = 140
PAGE = "1250,1230"
"""Of the report that the picture shows: width and height in pixels."""


def live(run: Path) -> str:
    """The live view two thirds through a run, as SVG."""
    layout, config = RunFolder(run).read_setup()
    rows = read_metrics(run / "metrics.jsonl")
    rows = rows[: max(1, 2 * len(rows) // 3)]
    steps = [0, *(row["env_steps"] for row in rows)]
    elapsed = sum(
        (now - before) / row["steps_per_second"] for before, now, row in zip(steps, steps[1:], rows, strict=False)
    )
    size = ConsoleDimensions(WIDTH, 40)
    table = live_table(rows[-1], rows[-RECENT:], layout, config, elapsed, size)
    return _svg(table, f"gmi-drl train --task {layout.task}")


def comparison(runs: list[str]) -> str:
    """What `gmi-drl compare` prints, as SVG."""
    said = subprocess.run([*_command("compare"), *runs], capture_output=True, text=True, check=True).stdout
    return _svg(Text(said.rstrip()), "gmi-drl compare")


def report(runs: list[str], picture: Path) -> None:
    """The top of the page of `gmi-drl report`, as PNG."""
    browser = shutil.which("chromium") or shutil.which("google-chrome")
    if browser is None:
        sys.exit("chromium is not installed: report.png is not drawn")
    with tempfile.TemporaryDirectory(prefix="gmi-drl-screens-") as folder:
        page = Path(folder) / "report.html"
        subprocess.run([*_command("report"), *runs, "-o", str(page)], check=True)
        shot = [f"--window-size={PAGE}", f"--screenshot={picture}", page.as_uri()]
        subprocess.run([browser, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", *shot], check=True)


def _svg(what: RenderableType, title: str) -> str:
    console = Console(record=True, width=WIDTH, file=StringIO(), force_terminal=True)
    console.print(what)
    return FONT.sub("", console.export_svg(title=title))


def _command(name: str) -> list[str]:
    return [sys.executable, "-c", "from gmi_drl.cli import main; main()", name]


def main() -> None:
    """Draw all three."""
    runs = sys.argv[1:]
    (GUIDES / "live.svg").write_text(live(Path(runs[0])))
    (GUIDES / "compare.svg").write_text(comparison(runs))
    report(runs, GUIDES / "report.png")


if __name__ == "__main__":
    main()
