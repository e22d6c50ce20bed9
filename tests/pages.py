"""The command lines in a page of documentation, and how to run them."""

import re
import sys

from conftest import environment

from tests.fork_server import SERVER


def transcripts(text):
    """`(arguments, output)` of every `$ gmi-drl …` in a block of code; an output goes up to the next `$` or the end."""
    blocks = re.findall(r"^```\w*\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    return [
        (command.split(), output)
        for block in blocks
        for command, output in re.findall(r"^\$ gmi-drl (.*)\n((?:(?!\$ ).*\n)*)", block, re.MULTILINE)
    ]


def gmi_drl(arguments, folder, **variables):
    """Run one command line of the page in `folder`."""
    line = [sys.executable, "-c", "from gmi_drl.cli import main; main()", *arguments]
    return SERVER.run(line, cwd=folder, env=environment() | variables, capture_output=True, text=True, timeout=120)


def lines(output):
    """Without the blanks that a wrapped line ends in."""
    return [line.rstrip() for line in output.splitlines()]
