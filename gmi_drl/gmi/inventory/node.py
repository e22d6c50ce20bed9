"""This machine as a `Node`, for which plans are made."""

import platform
from itertools import groupby

from gmi_drl.gmi.inventory.cores import allowed_cores, siblings_of
from gmi_drl.gmi.inventory.topology import topology
from gmi_drl.gmi.inventory.visible_gpus import gpus_open
from gmi_drl.hardware.host_memory import memory_bytes
from gmi_drl.hardware.node import Cpu, Gpus, Node
from gmi_drl.units import GIB


def this_node() -> Node:
    """Describe this machine, within the affinity, the cgroup's quota and CUDA_VISIBLE_DEVICES of this process.

    Raises:
        MachineError: if NVIDIA's driver does not answer.
        UsageError: if CUDA_VISIBLE_DEVICES names a device twice.
    """
    cores = allowed_cores()
    with gpus_open() as (nvml, seen):
        found = topology(nvml, seen.gpus)
    kinds = [(gpu.model, gpu.memory_gib or None) for gpu in seen.gpus]
    gpus = tuple(Gpus(model=model, count=len(list(alike)), memory_gib=size) for (model, size), alike in groupby(kinds))
    return Node(
        name=platform.node() or "localhost",
        gpus=gpus or None,
        link=found.link,
        links=found.links,
        cpu=Cpu(
            cores=len(cores),
            memory_gib=round(memory_bytes() / GIB, 1),
            siblings=siblings_of(cores),
            architecture=platform.machine(),
        ),
    )
