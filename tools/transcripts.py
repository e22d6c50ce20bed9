"""Runs the command lines of pages anew and writes what they print: `python -m tools.transcripts docs/plans.md`.

Each `$ gmi-drl …` of a block of code is run in a folder of its own that has a copy of `examples/`; its output is what
stands up to the next `$` or the end of the block. Tests hold the pages: see `tests/pages.py`.
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
    """The text of a page with the outputs of today."""
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
