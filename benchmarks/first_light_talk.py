"""What the client processes of `first_light.py` share: how they tell, meet and take the time."""

import datetime
import json
import os
import statistics
import subprocess
import time
from collections.abc import Callable
from typing import Any

FOLDER = "FIRST_LIGHT_FOLDER"
STORE = "FIRST_LIGHT_STORE"


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


def control(found: dict[str, str], command: str) -> str:
    """What a daemon answers."""
    line, own = ["nvidia-cuda-mps-control"], os.environ | found
    ended = subprocess.run(line, input=f"{command}\n", env=own, capture_output=True, text=True, timeout=10)
    return (ended.stdout + ended.stderr).strip()


def attached() -> bool | str:
    """Whether the daemon knows this process as its client."""
    if "CUDA_MPS_PIPE_DIRECTORY" not in os.environ:
        return "no daemon"
    servers = control({}, "get_server_list").split()
    return any(str(os.getpid()) in control({}, f"get_client_list {server}").split() for server in servers)


def join(backend: str, rank: str, size: str) -> Any:
    """The group of all clients."""
    import torch.distributed as dist

    store = dist.FileStore(os.environ[STORE], int(size))
    dist.init_process_group(
        backend, store=store, rank=int(rank), world_size=int(size), timeout=datetime.timedelta(seconds=20)
    )
    return dist


def microseconds(function: Callable[[], object], repeats: int = 30) -> float:
    """Median time until the device is done."""
    import torch

    times = []
    for _ in range(5 + repeats):
        torch.cuda.synchronize()
        started = time.perf_counter()
        function()
        torch.cuda.synchronize()
        times.append(time.perf_counter() - started)
    return round(statistics.median(times[5:]) * 1e6, 1)
