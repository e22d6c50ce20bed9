"""Helpers of `gpu_questions.py` and its clients: to print facts, form a group, start MPS, and time calls."""

import datetime
import json
import os
import secrets
import shutil
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from cleanup import MARK, control
from stages import MPS_CONTROL, REHEARSAL

from gmi_drl.gmi.mps import daemon
from gmi_drl.gmi.mps.control import LOGS, PIPES, Control
from gmi_drl.layout.environment import NO_MPS

STORE = "FIRST_LIGHT_STORE"
CONTROL_S = 10.0
NO_BINARY = "no MPS binary: nvidia-cuda-mps-control, which comes with the driver, is not in PATH"


def say(**what: Any) -> None:
    """Print facts as JSON at once, so that they are kept even if the process then dies."""
    print(json.dumps(what), flush=True)


def attempt(name: str, function: Callable[[], Any]) -> bool:
    """Print what a function returns, or why it failed."""
    try:
        say(**{name: function()})
    except Exception as error:
        say(**{name: f"failed: {type(error).__name__}: {str(error)[:500]}"})
        return False
    return True


def folder(prefix: str) -> Path:
    """Make a folder that is removed when the question ends."""
    return Path(tempfile.mkdtemp(prefix=prefix, dir=os.environ[MARK]))


def has_mps() -> bool:
    """Whether the driver's MPS is installed; prints a fact if not."""
    if shutil.which(MPS_CONTROL):
        return True
    say(mps=NO_BINARY)
    return False


@contextmanager
def mps(*flags: str) -> Iterator[dict[str, str]]:
    """Start an MPS daemon and its server. Yields the environment variables for its clients.

    Raises:
        MachineError: if it does not start.
    """
    number = secrets.token_hex(4)
    pipes, logs = (Path(os.environ[MARK]) / f"{name}-{number}" for name in ("mps", "log"))
    own = Control(pipes, logs)
    daemon.start(own, os.environ.get("CUDA_VISIBLE_DEVICES", ""), flags)
    try:
        yield own.environment
    finally:
        with suppress(OSError, subprocess.SubprocessError):  # the watchdog kills a daemon that does not answer
            control(pipes, "quit -t 5", CONTROL_S)


def ways() -> Iterator[tuple[str, dict[str, str]]]:
    """Plain sharing and, if available, MPS: the name, and the environment variables of its clients.

    A rehearsal runs both, the second without MPS if there is none.
    """
    yield "plain", NO_MPS
    if has_mps():
        with mps() as found:
            yield "mps", found
    elif REHEARSAL in os.environ:
        yield "mps", NO_MPS


def asked(found: dict[str, str], command: str) -> str:
    """Send a command to the daemon that an environment names. Returns its answer."""
    return control(Path(found[PIPES]), command, CONTROL_S)


def has_daemon() -> bool:
    """Whether this process was started to be a client of an MPS daemon."""
    return LOGS in os.environ


def mps_clients() -> list[int]:
    """The processes that this process's MPS daemon serves; none without a daemon.

    A client that cannot reach its daemon silently runs without MPS.
    """
    return list(Control(Path(os.environ[PIPES]), Path(os.environ[LOGS])).clients()) if has_daemon() else []


def attached() -> bool:
    """Whether this process is a client of its MPS daemon."""
    return os.getpid() in mps_clients()


def join(backend: str, rank: str, size: str) -> Any:
    """Join the group of all clients."""
    import torch.distributed as dist

    store = dist.FileStore(os.environ[STORE], int(size))
    dist.init_process_group(
        backend, store=store, rank=int(rank), world_size=int(size), timeout=datetime.timedelta(seconds=20)
    )
    return dist


def synchronize() -> None:
    """Wait until the device has finished, if there is one."""
    import torch

    if torch.cuda.is_available():
        torch.cuda.synchronize()


def microseconds(
    function: Callable[[], object], before: Callable[[], object] = lambda: None, repeats: int = 30
) -> float:
    """The median microseconds of a call until the device has finished. `before` runs before each call."""
    times = []
    for _ in range(5 + repeats):
        before()
        synchronize()
        started = time.perf_counter()
        function()
        synchronize()
        times.append(time.perf_counter() - started)
    return round(statistics.median(times[5:]) * 1e6, 1)
