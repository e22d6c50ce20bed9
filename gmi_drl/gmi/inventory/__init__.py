"""What this machine has and what this process may use of it. Imports no torch."""

from gmi_drl.gmi.inventory.cores import allowed_cores, cgroup_quota
from gmi_drl.gmi.inventory.gpu import MigDevice, VisibleGpu
from gmi_drl.gmi.inventory.node import this_node
from gmi_drl.gmi.inventory.nvml import Driver, driver, nvml_open
from gmi_drl.gmi.inventory.topology import Topology, topology
from gmi_drl.gmi.inventory.visible_gpus import VisibleGpus, gpus_open, visible_gpus, visible_gpus_report

__all__ = [
    "Driver",
    "MigDevice",
    "Topology",
    "VisibleGpu",
    "VisibleGpus",
    "allowed_cores",
    "cgroup_quota",
    "driver",
    "gpus_open",
    "nvml_open",
    "this_node",
    "topology",
    "visible_gpus",
    "visible_gpus_report",
]
