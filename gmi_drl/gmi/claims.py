"""Devices in use are claimed by `flock`: two runs never measure each other, and no claim outlives its process."""

import fcntl
import json
import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from gmi_drl.errors import LayoutMismatchError


def claims_folder() -> Path:
    """Where the locks lie: `GMI_DRL_CLAIMS`, or one folder per user in the system's folder for temporary files."""
    return Path(os.environ.get("GMI_DRL_CLAIMS") or Path(tempfile.gettempdir()) / f"gmi-drl-claims-{os.getuid()}")


@contextmanager
def claim(devices: Sequence[str], purpose: str) -> Iterator[None]:
    """Hold devices such as `["core-0", "gpu-1"]` for the time of a `with` block.

    Raises:
        LayoutMismatchError: if another process holds one of them; it is named with its purpose.
    """
    folder = claims_folder()
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    with ExitStack() as held:
        taken = [
            f"{device} is in use by {owner}" for device in devices if (owner := _take(held, folder / device, purpose))
        ]
        if taken:
            remedy = "wait for it, stop it, or start on other cores with `taskset -c LIST`"
            raise LayoutMismatchError("; ".join(taken) + f": {remedy}")
        yield


def _take(held: ExitStack, path: Path, purpose: str) -> str | None:
    """Lock one file until `held` closes; the description of the owner if somebody else has it."""
    # The file stays when the lock goes: deleting it would let two processes lock two files of the same name.
    file = held.enter_context(path.open("a+"))
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.seek(0)
        return _describe(file.read())
    file.truncate(0)
    file.write(json.dumps({"pid": os.getpid(), "purpose": purpose}))
    file.flush()
    return None


def _describe(text: str) -> str:
    try:
        owner = json.loads(text)
        return f"process {owner['pid']} ({owner['purpose']})"
    except (ValueError, KeyError, TypeError):
        return "another process"
