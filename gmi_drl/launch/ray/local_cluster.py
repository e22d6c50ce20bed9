"""Starts a Ray cluster on this machine that ends with this process, however that ends."""

import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path

import psutil

from gmi_drl.gmi.inventory import allowed_cores, visible_gpus
from gmi_drl.launch.processes.reaper import Reaper

OBJECT_STORE_BYTES = 80 * 2**20  # near Ray's minimum: we store nothing there

SETTINGS = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_worker_niceness": "0"}
"""Variables of a cluster of our own: Ray would report its use, and give its workers a nice value of 15."""


@contextmanager
def own_cluster() -> Iterator[None]:
    """Run a cluster with this machine's cores and GPUs for the time of a `with` block.

    It has no dashboard. If this process is killed, a reaper kills the processes that Ray would leave for a minute (the
    agents of its raylet), and removes the cluster's folder.
    """
    import ray

    with folder_of_ray() as folder, closing(Reaper()) as reaper, variables(SETTINGS):
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
def variables(values: Mapping[str, str]) -> Iterator[None]:
    """Set environment variables for the time of a `with` block."""
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name)
            if value is not None:
                os.environ[name] = value
