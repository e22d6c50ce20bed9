"""Claims on devices by `flock`: a user's runs never disturb each other, and a claim ends with its process."""

import fcntl
import json
import os
import stat
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from gmi_drl.errors import InUseError, MachineError

PATIENCE_S = 1.0
"""How long a claim is retried: a run that is just ending still holds its devices for a moment."""

RETRY_S = 0.02

SHARED_VARIABLE = "GMI_DRL_SHARED"
"""Devices, with commas between, that this program and its children claim as `Shared`: the other slots of a sweep, too.
"""

OF_SWEEPS = "sweep-"
"""Before the name of a device: claims by which sweeps of other programs keep each other away from it."""

_held: dict[str, int] = {}
"""Descriptors of the locks that this process holds, by device."""


class Shared(str):
    """A device that several processes may claim together, such as the GPU of a MIG instance in use."""


def descriptor_of(device: str) -> int:
    """The descriptor of a lock that this process holds. A process that inherits it holds the device, too."""
    return _held[device]


def locked(path: Path) -> bool:
    """Whether another process holds the lock in this file exclusively.

    Raises:
        OSError: if this user may not open the file.
    """
    # Another user may have put a pipe there: opening that would block.
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        is_ours = any(os.path.sameopenfile(descriptor, ours) for ours in _held.values())
        if is_ours or not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return False
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def claims_folder() -> Path:
    """The folder of the locks: `GMI_DRL_CLAIMS`, or one folder per user in the system's folder for temporary files."""
    chosen = os.environ.get("GMI_DRL_CLAIMS")
    return Path(chosen or Path(tempfile.gettempdir()) / f"gmi-drl-claims-{os.getuid()}").absolute()


@contextmanager
def claim(devices: Sequence[str], purpose: str) -> Iterator[None]:
    """Hold devices such as `["core-0", "gpu-1"]` for the time of a `with` block, exclusively unless they are `Shared`.

    Those in `GMI_DRL_SHARED` are shared, too. All processes lock in the same order, so one of several that start
    together gets all of its devices.

    Raises:
        InUseError: if another process holds one of them for `PATIENCE_S`; the message has its purpose.
        MachineError: if other users can write the folder of the locks, or a lock in it cannot be opened.
    """
    folder = _own_folder()
    shared = os.environ.get(SHARED_VARIABLE, "").split(",")
    alone = {device for device in devices if not isinstance(device, Shared) and device not in shared}
    locks = [(folder / device, device in alone) for device in sorted(set(devices))]
    deadline = time.monotonic() + PATIENCE_S
    with ExitStack() as held:
        while taken := _take_all(held, locks, purpose):
            if time.monotonic() >= deadline:
                others = "CUDA_VISIBLE_DEVICES=LIST" if taken.startswith("gpu-") else "`taskset -c LIST`"
                raise InUseError(f"{taken}: wait for it, stop it, or start on others with {others}")
            time.sleep(RETRY_S)
        yield


def _own_folder() -> Path:
    """The folder of the locks, created if it is missing. In /tmp another user could have put something in its place."""
    folder = claims_folder()
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        facts = folder.lstat()
    except OSError as error:
        raise MachineError(f"{folder}: claims cannot be kept there ({error.strerror}): set GMI_DRL_CLAIMS") from None
    if not stat.S_ISDIR(facts.st_mode) or facts.st_uid != os.getuid() or facts.st_mode & 0o022:
        raise MachineError(f"{folder} is not a folder that only you can write: remove it or set GMI_DRL_CLAIMS")
    return folder


def _take_all(held: ExitStack, locks: Sequence[tuple[Path, bool]], purpose: str) -> str | None:
    """Lock all files until `held` closes, or none. Returns the first that another process holds, with its owner."""
    with ExitStack() as attempt:
        for path, alone in locks:
            if owner := _take(attempt, path, alone, purpose):
                return f"{path.name.removeprefix(OF_SWEEPS)} is in use by {owner}"
        held.push(attempt.pop_all())
    return None


def _take(held: ExitStack, path: Path, alone: bool, purpose: str) -> str | None:
    """Lock one file until `held` closes. Returns a description of the owner if another process holds it."""
    # The file stays when the lock goes: deleting it would let two processes lock two files of the same name.
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise MachineError(f"{path} cannot be locked ({error.strerror}): remove it or set GMI_DRL_CLAIMS") from None
    file = held.enter_context(os.fdopen(descriptor, "r+"))
    try:
        fcntl.flock(file, (fcntl.LOCK_EX if alone else fcntl.LOCK_SH) | fcntl.LOCK_NB)
    except BlockingIOError:
        file.seek(0)
        return _describe(file.read())
    held.callback(_forget, path.name, _held.get(path.name))
    _held[path.name] = descriptor
    text = json.dumps({"pid": os.getpid(), "purpose": purpose}) if alone else ""  # of several holders it would name one
    with suppress(OSError):  # a full disk: the claim holds, and is not described
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, text.encode(), 0)
    return None


def _forget(device: str, outer: int | None) -> None:
    """Drop a descriptor at the end of a claim. An outer claim may share the device: then its descriptor is back."""
    if outer is None:
        _held.pop(device, None)
    else:
        _held[device] = outer


def _describe(text: str) -> str:
    try:
        owner = json.loads(text)
        return f"process {owner['pid']} ({owner['purpose']})"
    except (ValueError, KeyError, TypeError):
        return "other processes"
