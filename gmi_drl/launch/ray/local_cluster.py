"""Starts a Ray cluster on this machine that ends with this process, however that ends."""

import os
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import psutil

from gmi_drl.gmi.inventory import allowed_cores, visible_gpus
from gmi_drl.launch.processes.reaper import Reaper

OBJECT_STORE_BYTES = 80 * 2**20  # near Ray's minimum: we store nothing there


@contextmanager
def own_cluster() -> Iterator[None]:
    """Run a cluster with this machine's cores and GPUs for the time of a `with` block.

    It has no dashboard and sends no usage statistics. If this process is killed, a reaper kills the processes that Ray
    would leave for a minute (the agents of its raylet), and removes the cluster's folder.
    """
    import ray

    with folder_of_ray() as folder, closing(Reaper()) as reaper, variable("RAY_USAGE_STATS_ENABLED", "0"):
        reaper.watch_folder(folder)
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
                reaper.watch_process(daemon.pid)
            yield
        finally:
            ray.shutdown()  # before its folder is removed


@contextmanager
def folder_of_ray() -> Iterator[Path]:
    """Create a folder for a cluster's sockets, whose paths must be short, for the time of a `with` block."""
    with tempfile.TemporaryDirectory(prefix="gmi-ray-", dir="/tmp", ignore_cleanup_errors=True) as folder:
        yield Path(folder)


@contextmanager
def variable(name: str, value: str) -> Iterator[None]:
    """Set an environment variable for the time of a `with` block."""
    before = os.environ.get(name)
    os.environ[name] = value
    try:
        yield
    finally:
        os.environ.pop(name)
        if before is not None:
            os.environ[name] = before
