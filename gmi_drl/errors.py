"""The errors that reach a user, each with the exit code of the command that meets it."""

import difflib
import sysconfig
import traceback
from collections.abc import Collection

LISTED = 40
"""Names that a message lists at most."""


class GmiError(Exception):
    """A failure while running. The message names the numbers and the remedy; no traceback is shown for it."""

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
    """A layout is there and needs what this machine lacks: other hardware, more memory, or a device that is in use."""

    exit_code = 5


class ComparisonFailedError(GmiError):
    """A benchmark is below the bound that was asked for, or its result is stale."""

    exit_code = 6


class GmiDiedError(GmiError):
    """A GMI has ended before it was done.

    Attributes:
        gmi_id: Which.
        exit_code_of_gmi: Its exit code, as `subprocess` has it: negative for the signal that killed it. None if it has
            closed its line and still runs, or if somebody else has reaped it.
    """

    def __init__(self, message: str, gmi_id: int, exit_code_of_gmi: int | None) -> None:
        super().__init__(message)
        self.gmi_id, self.exit_code_of_gmi = gmi_id, exit_code_of_gmi


class GmiWarning(UserWarning):
    """Something is not as it was wished for, and goes on all the same; the message says why."""


class PeerDiedError(GmiError):
    """A GMI of the same group has ended while this one waited for it."""


class PeerSilentError(GmiError):
    """A GMI of the same group lives but has not arrived within the deadline (`hang_s`)."""


def place_of(error: BaseException) -> str:
    """Where an error of other people's code was raised: `FILE, line N`, of the innermost file that is not installed."""
    frames = traceback.extract_tb(error.__traceback__)
    apart = ("<", sysconfig.get_path("stdlib"), __file__.rpartition("/")[0])
    theirs = [
        frame for frame in frames if "site-packages" not in frame.filename and not frame.filename.startswith(apart)
    ]
    frame = (theirs or frames)[-1]
    return f"{frame.filename}, line {frame.lineno}"


def not_importable(name: str, module: str, error: Exception, remedy: str) -> MachineError:
    """That other people's module cannot be imported: it is not there, which the remedy mends, or fails by itself."""
    if isinstance(error, ModuleNotFoundError) and f"{module}.".startswith(f"{error.name}."):
        return MachineError(f"{name} is not installed ({error}): {remedy}")
    return MachineError(f"{name} is there, and importing it fails: {type(error).__name__}: {error} ({place_of(error)})")


def did_you_mean(word: str, known: Collection[str]) -> str:
    """`; did you mean 'x'?`, or what exists when nothing is near; a simulator knows too many tasks to list them."""
    by_lower = {name.lower(): name for name in known}
    longer = [name for lower, name in by_lower.items() if lower.startswith(word.lower() + "-")]
    near = longer or [by_lower[lower] for lower in difflib.get_close_matches(word.lower(), by_lower, n=1)]
    if near:
        return f"; did you mean {' or '.join(map(repr, near))}?"
    return f"; known: {', '.join(known)}" if len(known) <= LISTED else f"; there are {len(known)}"
