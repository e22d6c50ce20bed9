"""Folders for the pipes and logs of daemons: a private one for each claim, with a lock that says if it is in use."""

import fcntl
import os
import re
import secrets
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from gmi_drl.errors import MachineError
from gmi_drl.gmi.claims import locked
from gmi_drl.gmi.mps.control import Control
from gmi_drl.processes.starts import start_of

REMEDY = "set GMI_DRL_MPS to a folder with a short path"
ROOM = "make room on that disk, raise `ulimit -n`, or set GMI_DRL_MPS to another folder with a short path"
MOST_BYTES = 107
"""The longest path of a socket (`sun_path` in unix(7), without the final zero)."""

BESIDE = re.compile(r"[0-9a-f]{8}\.(lock|log|draft)")
"""The names of the files beside the folder of a claim (`new_name`)."""

LONGEST = "00000000/00/pipe/control_privileged"
"""The longest name of a socket below the folder of all claims."""


class Process(NamedTuple):
    """A process, distinguished from later ones with its number by its start. `started` is in clock ticks since boot."""

    pid: int
    started: int

    @classmethod
    def of(cls, pid: int) -> "Process":
        """The process that has this number now; `started` is 0 if there is none."""
        return cls(pid, start_of(pid))

    def lives(self) -> bool:
        """Whether the process still runs."""
        return self.started != 0 and start_of(self.pid) == self.started


def base() -> Path:
    """The folder of all claims of this user: `GMI_DRL_MPS`, or a folder with a short path in /tmp."""
    return Path(os.environ.get("GMI_DRL_MPS") or f"/tmp/gmi-drl-mps-{os.getuid()}").absolute()


def new_name() -> Path:
    """A path for the folder of a new claim. Creates the folder of all claims, but not this one.

    Raises:
        MachineError: if that folder cannot be created, is open to other users, or its path is too long for sockets.
    """
    above = base()
    if (long := len(os.fsencode(above / LONGEST))) > MOST_BYTES:
        raise MachineError(
            f"{above}: sockets there would have paths of {long} bytes, {MOST_BYTES} are possible: {REMEDY}"
        )
    try:
        above.mkdir(mode=0o700, parents=True, exist_ok=True)
        is_ours = _is_ours_alone(above)
    except OSError as error:
        raise MachineError(f"{above}: MPS cannot have folders there ({error.strerror}): {REMEDY}") from None
    if not is_ours:
        raise MachineError(f"{above} is not a folder that only you can open: remove it or set GMI_DRL_MPS")
    return above / secrets.token_hex(4)


@contextmanager
def made() -> Iterator[tuple[Path, int]]:
    """Create the folder of a claim and lock it. Yields the folder and the lock's descriptor.

    The folder stays. A process that inherits the descriptor keeps the lock, and must remove the folder.

    Raises:
        MachineError: as for `new_name`, or if it cannot be created there.
    """
    folder = new_name()
    try:
        descriptor = _make(folder)
    except OSError as error:
        with suppress(OSError):
            remove(folder)
        raise MachineError(f"{folder.parent}: MPS cannot have folders there ({error.strerror}): {ROOM}") from None
    try:
        yield folder, descriptor
    finally:
        os.close(descriptor)


def _make(folder: Path) -> int:
    """Create a folder, and beside it its lock, which is held from now on. Returns the descriptor of the lock."""
    draft = folder.with_suffix(".draft")  # gets the lock's name when it is locked
    descriptor = os.open(draft, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        draft.rename(lock_of(folder))
        folder.mkdir(mode=0o700)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def remove(folder: Path) -> None:
    """Remove the folder of a claim with its lock and its log."""
    shutil.rmtree(folder, ignore_errors=True)
    for path in (watchdog_log(folder), folder.with_suffix(".draft"), lock_of(folder)):
        path.unlink(missing_ok=True)


def lock_of(folder: Path) -> Path:
    """The lock beside a claim's folder: held while a process will remove it, be it in another container."""
    return folder.with_suffix(".lock")


def watchdog_log(folder: Path) -> Path:
    """The watchdog's log, beside a claim's folder, which it removes."""
    return folder.with_suffix(".log")


def control_of(folder: Path, number: int) -> Control:
    """The control of the daemon for the GPU with this number in a claim."""
    return Control(folder / str(number) / "pipe", folder / str(number) / "log")


def controls_in(folder: Path) -> list[Control]:
    """The controls of all daemons that were started in a folder, or should have been."""
    return [control_of(folder, int(path.parent.name)) for path in sorted(folder.glob("*/pipe"))]


def stale() -> list[Path]:
    """The folders of claims that no process will remove. Of one perhaps only the lock or the log is left.

    A claim has its lock or log beside it. What else is in that folder, which the user may have named, is not ours.
    """
    above = base()
    if not above.exists() or not _is_ours_alone(above):
        return []
    folders = {path.with_suffix("") for path in above.glob("*.*") if BESIDE.fullmatch(path.name)}
    return sorted(folder for folder in folders if not _has_owner(folder))


def _has_owner(folder: Path) -> bool:
    try:
        return locked(lock_of(folder))
    except OSError:
        return False


def _is_ours_alone(folder: Path) -> bool:
    facts = folder.lstat()
    return stat.S_ISDIR(facts.st_mode) and facts.st_uid == os.getuid() and not facts.st_mode & 0o077
