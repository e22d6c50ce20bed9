"""The errors that reach a user, each with the exit code of the command that meets it."""

import difflib
import sysconfig
import traceback
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager

LISTED = 40
"""Names that a message lists at most."""


class GmiError(Exception):
    """A failure while running. The message has the numbers and the remedy; users see no traceback."""

    exit_code = 1


class UsageError(GmiError):
    """A command, a file or a value that the user gave is wrong."""

    exit_code = 2


class NoFeasiblePlanError(GmiError):
    """No layout fits the workload on this hardware, so none was made."""

    exit_code = 3


class MachineError(GmiError):
    """This machine lacks something that the request needs (a package, a device, room, permission)."""

    exit_code = 4


class MissingNodeError(MachineError):
    """Agents of nodes have ended before they came, or do not come.

    Attributes:
        nodes: Which, by their names in the layout.
    """

    def __init__(self, message: str, nodes: Collection[str]) -> None:
        super().__init__(message)
        self.nodes = nodes


class LayoutMismatchError(GmiError):
    """A layout needs what this machine lacks: other hardware, more memory, or a device that is in use."""

    exit_code = 5


class InUseError(LayoutMismatchError):
    """Another process holds a device or a folder: the same command may succeed later."""

    exit_code = 7


class ComparisonFailedError(GmiError):
    """A benchmark is below the requested bound, or its result is stale."""

    exit_code = 6


class GmiDiedError(GmiError):
    """A GMI has ended before it was done.

    Attributes:
        gmi_id: Its id.
        exit_code_of_gmi: Its exit code, as `subprocess` has it: negative for the signal that killed it. None if it has
            closed its connection and still runs, or if another process has reaped it.
    """

    def __init__(self, message: str, gmi_id: int, exit_code_of_gmi: int | None) -> None:
        super().__init__(message)
        self.gmi_id, self.exit_code_of_gmi = gmi_id, exit_code_of_gmi


class GmiWarning(UserWarning):
    """Something differs from what was requested, and the program continues; the message says why."""


class PeerDiedError(GmiError):
    """A GMI of the same group ended while this one waited for it."""


class PeerSilentError(GmiError):
    """A GMI of the same group lives but has not arrived within the deadline (`hang_s`)."""


@contextmanager
def told_with(mistakes: Sequence[str]) -> Iterator[None]:
    """Tell mistakes that were found all at once: at the end of the block, or with the error that ends it.

    Args:
        mistakes: The block may add to them.

    Raises:
        UsageError: with every mistake. Without any an error of the block is raised as it is.
    """
    try:
        yield
    except GmiError as error:
        if not mistakes:
            raise
        raise UsageError("; ".join([*mistakes, str(error)])) from None
    if mistakes:
        raise UsageError("; ".join(mistakes))


def place_of(error: BaseException) -> str:
    """Where an error in third-party code was raised: `FILE, line N` of the innermost file that is not installed."""
    frames = traceback.extract_tb(error.__traceback__)
    apart = ("<", sysconfig.get_path("stdlib"), __file__.rpartition("/")[0])
    theirs = [
        frame for frame in frames if "site-packages" not in frame.filename and not frame.filename.startswith(apart)
    ]
    frame = (theirs or frames)[-1]
    return f"{frame.filename}, line {frame.lineno}"


def not_importable(name: str, module: str, error: Exception, remedy: str) -> MachineError:
    """The error for a third-party module that cannot be imported: not installed (with the remedy), or broken."""
    if isinstance(error, ModuleNotFoundError) and f"{module}.".startswith(f"{error.name}."):
        return MachineError(f"{name} is not installed ({error}): {remedy}")
    what = f"{type(error).__name__}: {error} ({place_of(error)})"
    return MachineError(f"{name} is installed but cannot be imported: {what}")


def did_you_mean(word: str, known: Collection[str]) -> str:
    """`; did you mean 'x'?`, or the known names if none is similar, or their number if they are many."""
    by_lower = {name.lower(): name for name in known}
    longer = [name for lower, name in by_lower.items() if lower.startswith(word.lower() + "-")]
    near = longer or [by_lower[lower] for lower in difflib.get_close_matches(word.lower(), by_lower, n=1)]
    if near:
        return f"; did you mean {' or '.join(map(repr, near))}?"
    return f"; known: {', '.join(known)}" if len(known) <= LISTED else f"; there are {len(known)}"
