"""A Ray cluster of our own on this machine, which ends with whoever made it, however that ends."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import psutil

from gmi_drl.gmi.inventory import allowed_cores, visible_gpus
from gmi_drl.launch.processes.reaper import Reaper

OBJECT_STORE_BYTES = 80 * 2**20  # near Ray's least: nothing of ours is kept there


@contextmanager
def own_cluster() -> Iterator[None]:
    """Have a cluster with this machine's cores and GPUs for the time of a `with` block.

    It has no dashboard and sends no usage statistics. Where this process is killed, a guard kills what Ray leaves for
    a minute (the agents of its raylet), and removes its folder.
    """
    import ray

    with folder_of_ray() as folder, closing(Reaper()) as guard, variable("RAY_USAGE_STATS_ENABLED", "0"):
        guard.watch_folder(folder)
        others = set(psutil.Process().children(recursive=True))
        try:
            ray.init(
                address="local",
                num_cpus=len(allowed_cores()),
                num_gpus=len(visible_gpus()),
                include_dashboard=False,
                object_store_memory=OBJECT_STORE_BYTES,
                log_to_driver=False,
                logging_level="error",
                _temp_dir=str(folder),
            )
            for daemon in set(psutil.Process().children(recursive=True)) - others:
                guard.watch_process(daemon.pid)
            yield
        finally:
            ray.shutdown()  # before its folder goes


@contextmanager
def folder_of_ray() -> Iterator[Path]:
    """Where a cluster keeps its sockets, whose paths must be short."""
    with tempfile.TemporaryDirectory(prefix="gmi-ray-", dir="/tmp", ignore_cleanup_errors=True) as folder:
        yield Path(folder)


@contextmanager
def variable(name: str, value: str) -> Iterator[None]:
    """Set a variable of the environment for the time of a `with` block."""
    before = os.environ.get(name)
    os.environ[name] = value
    try:
        yield
    finally:
        os.environ.pop(name)
        if before is not None:
            os.environ[name] = before
