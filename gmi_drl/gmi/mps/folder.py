"""Where daemons have their pipes and logs: a private folder for each claim, which tells whose it is."""

import json
import os
import secrets
import stat
import time
from pathlib import Path
from typing import NamedTuple

from gmi_drl.errors import MachineError
from gmi_drl.gmi.mps.control import Control

RECORD = "record.json"
REMEDY = "set GMI_DRL_MPS to a folder with a short path"
MOST_BYTES = 107
"""Of the path of a socket (`sun_path` in unix(7), with its end)."""

YOUNG_S = 60.0
"""What is younger is left alone, although it does not say yet whose it is."""

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
        facts = above.lstat()
    except OSError as error:
        raise MachineError(f"{above}: MPS cannot have folders there ({error.strerror}): {REMEDY}") from None
    if not stat.S_ISDIR(facts.st_mode) or facts.st_uid != os.getuid() or facts.st_mode & 0o077:
        raise MachineError(f"{above} is not a folder that only you can open: remove it or set GMI_DRL_MPS")
    return above / secrets.token_hex(4)


def make(folder: Path, holders: list[Process]) -> None:
    """Make the folder of a claim, and say in it which processes see to its end."""
    folder.mkdir(mode=0o700)
    draft = folder / f"{RECORD}.draft"
    draft.write_text(json.dumps({"holders": holders}))
    draft.rename(folder / RECORD)


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
    """Folders of claims that nobody sees to any more; perhaps only the log of a keeper is left of one."""
    names = {path.with_suffix("") for path in base().glob("*")}
    return sorted(folder for folder in names if not _is_seen_to(folder))


def _is_seen_to(folder: Path) -> bool:
    try:
        holders = [Process(*holder) for holder in json.loads((folder / RECORD).read_text())["holders"]]
    except (ValueError, KeyError, TypeError):
        return False
    except OSError:  # it is just being made or removed, or nobody will any more
        return any(
            path.exists() and time.time() - path.stat().st_mtime < YOUNG_S for path in (folder, keeper_log(folder))
        )
    return any(holder.lives() for holder in holders)
