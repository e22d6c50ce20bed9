"""Ray clusters that belong to a case alone."""

from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from typing import TYPE_CHECKING

import psutil

from gmi_drl.benchmarks.cores import PURPOSE

if TYPE_CHECKING:
    from gmi_drl.gmi import Claim
    from gmi_drl.launch.hosts import DeviceOpener
    from gmi_drl.layout.layout import Layout


@contextmanager
def held_by(launcher: str, layout: "Layout") -> "Iterator[Claim | DeviceOpener]":
    """Hold the devices of a layout by this launcher, for Ray on a cluster of the case's own, for a `with` block."""
    from gmi_drl.launch.launchers import RAY, supervisors_for
    from gmi_drl.launch.open_layout import hold_devices

    with ExitStack() as life:
        if launcher == RAY:
            life.enter_context(own_cluster(layout))
        agents = life.enter_context(supervisors_for(launcher, layout))
        yield life.enter_context(hold_devices(layout, PURPOSE, agents))


@contextmanager
def own_cluster(layout: "Layout") -> Iterator[None]:
    """Set `RAY_ADDRESS` to a cluster of the case's own: one daemon on this machine for each node of the layout.

    A layout of one node uses the cluster that the launcher itself starts. If this process is killed, a reaper kills
    the daemons.
    """
    from gmi_drl.launch.processes.reaper import Reaper
    from gmi_drl.launch.ray.cluster import ADDRESS
    from gmi_drl.launch.ray.local_cluster import OBJECT_STORE_BYTES, SETTINGS, folder_of_ray, variables
    from gmi_drl.launch.ray.placement import shares_of

    if len(layout.nodes) == 1:
        with variables({ADDRESS: "local"}):
            yield
        return
    from ray.cluster_utils import Cluster

    with folder_of_ray() as folder, closing(Reaper()) as guard, ExitStack() as life:
        guard.watch_folder(folder)
        life.enter_context(variables({"RAY_TMPDIR": str(folder), **SETTINGS}))
        others = set(psutil.Process().children(recursive=True))
        cluster = Cluster(shutdown_at_exit=False)
        life.callback(cluster.shutdown)
        for share in shares_of(layout).values():
            cluster.add_node(
                num_cpus=share.cpus, num_gpus=0, object_store_memory=OBJECT_STORE_BYTES, include_dashboard=False
            )
        for daemon in set(psutil.Process().children(recursive=True)) - others:
            guard.watch_process(daemon.pid)
        life.enter_context(variables({ADDRESS: cluster.address}))
        yield
