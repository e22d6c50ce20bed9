"""What the log of a GMI ends with, in the message of an error."""

import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from gmi_drl.errors import GmiError

LINES = 5
NAMED = re.compile(r"\n  its log is (.*)(\n  \| .*)*|: see the logs in .*")


def place_and_end(log: Path) -> str:
    """Where a log is and its last lines, to come after a message; nothing if it cannot be read."""
    lines = last_lines(log)
    return "" if lines is None else f"\n  its log is {log}{lines}"


def last_lines(log: Path) -> str | None:
    """The end of a log, to come after a message; None if it cannot be read."""
    with suppress(OSError):
        return "".join(f"\n  | {line}" for line in log.read_text(errors="replace").splitlines()[-LINES:])
    return None


@contextmanager
def told_by_their_ends() -> Iterator[None]:
    """For logs that are removed after this `with` block: an error has the last lines of one instead of its place."""
    try:
        yield
    except GmiError as error:
        error.args = (NAMED.sub(_end_alone, str(error)),)
        raise


def _end_alone(named: re.Match[str]) -> str:
    lines = last_lines(Path(named[1])) if named[1] else None
    return f"\n  its log ends with{lines}" if lines else ""
