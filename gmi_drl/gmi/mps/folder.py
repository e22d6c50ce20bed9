"""Where daemons have their pipes and logs: a private folder for each claim, which tells whose it is."""

import fcntl
import os
import secrets
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from gmi_drl.errors import MachineError
from gmi_drl.gmi.claims import locked
from gmi_drl.gmi.mps.control import Control

REMEDY = "set GMI_DRL_MPS to a folder with a short path"
MOST_BYTES = 107
"""Of the path of a socket (`sun_path` in unix(7), with its end)."""

LONGEST = "00000000/00/pipe/control_privileged"
"""The longest name of a socket below the folder, with some room."""


class Process(NamedTuple):
    """A process that can be told from later ones with its number. `started` is in clock ticks since boot."""

    pid: int
    started: int

    @classmethod
    def of(cls, pid: int) -> "Process":
        """The one that has this number now; `started` is 0 if none has."""
        return cls(pid, start_of(pid))

    def lives(self) -> bool:
        """Whether it is still there."""
        return self.started != 0 and start_of(self.pid) == self.started


def start_of(pid: int) -> int:
    """When a process was started, in clock ticks since boot; 0 if it has ended."""
    try:
        state, *fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0
    return 0 if state in "ZX" else int(fields[18])  # field 22 of proc(5), counted from the state, which is field 3


def base() -> Path:
    """The folder of all claims of this user: `GMI_DRL_MPS`, or one with a short path in /tmp."""
    return Path(os.environ.get("GMI_DRL_MPS") or f"/tmp/gmi-drl-mps-{os.getuid()}").absolute()


def new_name() -> Path:
    """A folder for a claim, not made yet, in the folder of all claims, which is.

    Raises:
        MachineError: if that cannot be made, is not ours alone, or its path is too long for sockets.
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
    """The folder of a claim, which stays, and a descriptor of its lock: who inherits it sees to the folder's end.

    Raises:
        MachineError: as `new_name`.
    """
    folder = new_name()
    draft = folder.with_suffix(".draft")  # not a lock until it is locked
    descriptor = os.open(draft, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        draft.rename(lock_of(folder))
        folder.mkdir(mode=0o700)
        yield folder, descriptor
    finally:
        os.close(descriptor)


def remove(folder: Path) -> None:
    """With all that lies beside it."""
    shutil.rmtree(folder, ignore_errors=True)
    for path in (keeper_log(folder), folder.with_suffix(".draft"), lock_of(folder)):
        path.unlink(missing_ok=True)


def lock_of(folder: Path) -> Path:
    """Beside the folder: locked while somebody sees to its end, in whatever container."""
    return folder.with_suffix(".lock")


def keeper_log(folder: Path) -> Path:
    """Beside the folder, as that is removed."""
    return folder.with_suffix(".log")


def control_of(folder: Path, number: int) -> Control:
    """Of the daemon of the GPU that is so many in a claim."""
    return Control(folder / str(number) / "pipe", folder / str(number) / "log")


def controls_in(folder: Path) -> list[Control]:
    """Of all daemons that were to be started in a folder."""
    return [control_of(folder, int(path.parent.name)) for path in sorted(folder.glob("*/pipe"))]


def stale() -> list[Path]:
    """Folders of claims that nobody sees to any more; perhaps only what lies beside is left of one."""
    above = base()
    if not above.exists() or not _is_ours_alone(above):
        return []
    return sorted({path.with_suffix("") for path in above.glob("*") if not _is_seen_to(path.with_suffix(""))})


def _is_seen_to(folder: Path) -> bool:
    try:
        return locked(lock_of(folder))
    except OSError:
        return False


def _is_ours_alone(folder: Path) -> bool:
    facts = folder.lstat()
    return stat.S_ISDIR(facts.st_mode) and facts.st_uid == os.getuid() and not facts.st_mode & 0o077
