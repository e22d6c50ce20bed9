"""How the GPUs of this machine are connected: by NVLinks, directly or through switches, and by PCIe.

Sources: NVML API Reference Guide, "NvLink Methods" and `nvmlDeviceGetTopologyCommonAncestor`.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations
from typing import Any, NamedTuple

from gmi_drl.gmi.inventory.gpu import VisibleGpu
from gmi_drl.gmi.inventory.nvml import query
from gmi_drl.hardware.node import LinkKind, Links

PATHS = {
    0: "on one board",
    10: "through one PCIe switch",
    20: "through several PCIe switches",
    30: "through one host bridge",
    40: "within one NUMA node",
    50: "between NUMA nodes",
}
"""Where the PCIe paths of two GPUs meet, by NVML_TOPOLOGY_*."""

SWITCH = "switch"

Pair = tuple[int, int]


class Topology(NamedTuple):
    """The connections of the GPUs that this process may use, by their indices.

    `nvlinks` counts the NVLinks between two GPUs, or from either to their common switch. `paths` says where their PCIe
    paths meet. Pairs about which NVML reports nothing are missing.
    """

    link: LinkKind
    links: tuple[Links, ...]
    nvlinks: dict[Pair, int]
    paths: dict[Pair, str]


def topology(nvml: Any, gpus: Sequence[VisibleGpu]) -> Topology:
    """Read from NVML, which must be open, how these GPUs are connected. MIG devices count as connected by PCIe only."""
    whole = {index: gpu for index, gpu in enumerate(gpus) if not gpu.parent and gpu.mig is not True}
    ends = {index: _far_ends(nvml, nvml.nvmlDeviceGetHandleByUUID(gpu.uuid)) for index, gpu in whole.items()}
    direct = {
        (one, other): count
        for one, other in combinations(whole, 2)
        if (count := ends[one].count(whole[other].pci)) and whole[other].pci
    }
    on_switch = [index for index in whole if SWITCH in ends[index]]
    through = {
        (one, other): min(ends[i].count(SWITCH) for i in (one, other)) for one, other in combinations(on_switch, 2)
    }
    groups = [Links(gpus=tuple(group), kind="nvlink") for group in islands(direct)]
    groups += [Links(gpus=tuple(on_switch), kind="nvswitch")] if len(on_switch) > 1 else []
    for links in groups:
        if len(links.gpus) == len(gpus):
            return Topology(links.kind, (), direct | through, _paths(nvml, whole))
    default: LinkKind = "pcie" if len(gpus) > 1 else "none"
    return Topology(default, tuple(groups), direct | through, _paths(nvml, whole))


def islands(pairs: Iterable[Pair]) -> Iterator[list[int]]:
    """Yield groups of GPUs that are all linked with each other: whole connected components, else single pairs.

    The eight GPUs of a DGX-1 are connected, but not each with each: they yield pairs.
    """
    linked = set(pairs)
    left = sorted({gpu for pair in linked for gpu in pair})
    while left:
        island = _reached(left[0], linked)
        within = list(combinations(island, 2))
        if all(pair in linked for pair in within):
            yield island
        else:
            yield from ([one, other] for one, other in within if (one, other) in linked)
        left = [gpu for gpu in left if gpu not in island]


def _reached(start: int, linked: set[Pair]) -> list[int]:
    """All GPUs that can be reached by links from one, including itself."""
    island = {start}
    while more := {gpu for pair in linked if island & set(pair) for gpu in pair} - island:
        island |= more
    return sorted(island)


def _far_ends(nvml: Any, gpu: Any) -> list[str]:
    """The other end of each active NVLink of a GPU: the PCI address of a GPU, or `SWITCH`."""
    ends = []
    for link in range(nvml.NVML_NVLINK_MAX_LINKS):
        if not query(nvml.nvmlDeviceGetNvLinkState, gpu, link):
            continue
        if query(nvml.nvmlDeviceGetNvLinkRemoteDeviceType, gpu, link) == nvml.NVML_NVLINK_DEVICE_TYPE_SWITCH:
            ends.append(SWITCH)
        elif (pci := query(nvml.nvmlDeviceGetNvLinkRemotePciInfo, gpu, link)) is not None:
            ends.append(pci.busId)
    return ends


def _paths(nvml: Any, gpus: dict[int, VisibleGpu]) -> dict[Pair, str]:
    handles = {index: nvml.nvmlDeviceGetHandleByUUID(gpu.uuid) for index, gpu in gpus.items()}
    levels = {
        (one, other): query(nvml.nvmlDeviceGetTopologyCommonAncestor, handles[one], handles[other])
        for one, other in combinations(handles, 2)
    }
    return {pair: PATHS[level] for pair, level in levels.items() if level in PATHS}
