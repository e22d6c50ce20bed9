"""What questions and client processes of `first_light.py` have in common: how they tell, meet, use MPS, take time."""

import datetime
import json
import os
import shutil
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from keeper import MARK, control

STORE = "FIRST_LIGHT_STORE"
CONTROL_S = 10.0
NO_MPS = "no MPS binary: nvidia-cuda-mps-control, which comes with the driver, is not in PATH"


def say(**what: Any) -> None:
    """Tell facts at once, so that they count even if nothing follows."""
    print(json.dumps(what), flush=True)


def attempt(name: str, function: Callable[[], Any]) -> bool:
    """Tell what a function returns, or why it failed."""
    try:
        say(**{name: function()})
    except Exception as error:
        say(**{name: f"failed: {type(error).__name__}: {str(error)[:500]}"})
        return False
    return True


def folder(prefix: str) -> Path:
    """A new folder, which is gone with the question."""
    return Path(tempfile.mkdtemp(prefix=prefix, dir=os.environ[MARK]))


def has_mps() -> bool:
    """Whether the driver's MPS is at hand; tells if it is not."""
    if shutil.which("nvidia-cuda-mps-control"):
        return True
    say(mps=NO_MPS)
    return False


@contextmanager
def mps(*flags: str) -> Iterator[dict[str, str]]:
    """A daemon of one's own; what its clients need in their environment."""
    pipes = folder("mps-")
    found = {"CUDA_MPS_PIPE_DIRECTORY": str(pipes), "CUDA_MPS_LOG_DIRECTORY": str(pipes)}
    with (pipes / "start").open("wb") as file:  # a file, because the daemon would hold a pipe open
        command = ["nvidia-cuda-mps-control", "-d", *flags]
        ended = subprocess.run(command, env=os.environ | found, stdout=file, stderr=subprocess.STDOUT, timeout=15)
    if ended.returncode != 0:
        raise RuntimeError(f"{' '.join(command)} exited with {ended.returncode}: {(pipes / 'start').read_text()}")
    try:
        yield found
    finally:
        with suppress(OSError, subprocess.SubprocessError):  # what does not answer the keeper ends by its pid
            control(pipes, "quit -t 5", CONTROL_S)


def ways() -> Iterator[tuple[str, dict[str, str]]]:
    """Plain sharing and, where it is at hand, MPS: the name, and what its clients need in their environment."""
    yield "plain", {}
    if has_mps():
        with mps() as found:
            yield "mps", found


@contextmanager
def environment(more: dict[str, str]) -> Iterator[None]:
    """Have all that is started within a `with` block share the GPU in one of the `ways`."""
    before = dict(os.environ)
    os.environ.update(more)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def asked(found: dict[str, str], command: str) -> str:
    """What a daemon answers its client, or whoever has its client's environment."""
    return control(Path(found["CUDA_MPS_PIPE_DIRECTORY"]), command, CONTROL_S)


def mps_clients(found: dict[str, str]) -> list[int]:
    """Processes that a daemon serves: one that cannot reach it runs on without MPS, and says nothing."""
    servers = asked(found, "get_server_list").split()
    return [int(word) for server in servers for word in asked(found, f"get_client_list {server}").split()]


def attached() -> bool | str:
    """Whether the daemon knows this process as its client."""
    if "CUDA_MPS_PIPE_DIRECTORY" not in os.environ:
        return "no daemon"
    return os.getpid() in mps_clients(dict(os.environ))


def join(backend: str, rank: str, size: str) -> Any:
    """The group of all clients."""
    import torch.distributed as dist

    store = dist.FileStore(os.environ[STORE], int(size))
    dist.init_process_group(
        backend, store=store, rank=int(rank), world_size=int(size), timeout=datetime.timedelta(seconds=20)
    )
    return dist


def synchronize() -> None:
    """Wait until the device is done, if there is one."""
    import torch

    if torch.cuda.is_available():
        torch.cuda.synchronize()


def microseconds(
    function: Callable[[], object], before: Callable[[], object] = lambda: None, repeats: int = 30
) -> float:
    """Median time until the device is done, of calls before each of which something else is done."""
    times = []
    for _ in range(5 + repeats):
        before()
        synchronize()
        started = time.perf_counter()
        function()
        synchronize()
        times.append(time.perf_counter() - started)
    return round(statistics.median(times[5:]) * 1e6, 1)
