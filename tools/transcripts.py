"""Runs the commands shown on pages and replaces their output there: `python -m tools.transcripts PAGE`.

Each `$ gmi-drl …` in a block of code runs in its own folder with a copy of `examples/`. Its output stands in the block
up to the next `$` or the end. Tests check the pages: see `tests/pages.py`.
"""

import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parent.parent
BLOCK = re.compile(r"^```\w*\n(.*?)^```", re.DOTALL | re.MULTILINE)
LINE = re.compile(r"^(\$ gmi-drl (.*)\n)((?:(?!\$ ).*\n)*)", re.MULTILINE)


def renewed(page: str) -> str:
    """The text of a page with the current output of its commands."""
    with tempfile.TemporaryDirectory(prefix="gmi-drl-transcripts-") as name:
        folder = Path(name)
        shutil.copytree(ROOT / "examples", folder / "examples")

        def run(line: re.Match[str]) -> str:
            return line[1] + _output(line[2].split(), folder)

        return BLOCK.sub(lambda block: LINE.sub(run, block[0]), page)


def _output(arguments: list[str], folder: Path) -> str:
    line = [sys.executable, "-c", "from gmi_drl.cli import main; main()", *arguments]
    run = subprocess.run(line, cwd=folder, capture_output=True, text=True, timeout=120, check=True)
    return "".join(f"{line.rstrip()}\n" for line in run.stdout.splitlines())


if __name__ == "__main__":
    for path in map(Path, sys.argv[1:]):
        path.write_text(renewed(path.read_text()))
