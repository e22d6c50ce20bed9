"""`plan --format kubernetes`: how NVIDIA's device plugin shares the GPUs of a node, and what a pod then asks for.

The file is the plugin's config (NVIDIA k8s-device-plugin, `api/config/v1`; README, "Shared Access to GPUs"). It can
only share all GPUs of a node equally: by MPS, with SMs and memory in N parts, or by time slicing, without limits.
"""

from collections import Counter
from typing import Any

from gmi_drl.errors import UsageError
from gmi_drl.hardware.node import Node
from gmi_drl.layout.cut_gpus import CutGpu, There, commented, gpus_of
from gmi_drl.layout.environment import thread_percentage
from gmi_drl.layout.export.workers import GPU, roles_told
from gmi_drl.layout.layout import Layout
from gmi_drl.layout.mig_instances import instance_names, placed
from gmi_drl.units import counted
from gmi_drl.yaml_text import write_yaml

MOST_CLIENTS = 48
"""Replicas of a GPU that the plugin allows by MPS (`cmd/mps-control-daemon/mps/device.go`)."""

ONE_POD = [
    "That is a pod for each GMI. The GMIs of one `gmi-drl train` need a single pod: let it ask for whole GPUs",
    "of a node that shares none, and it cuts them by itself.",
]


def kubernetes(layout: Layout, node: Node, there: There = ()) -> str:
    """The plugin's config as YAML, after a comment with the requests of pods."""
    gpus = gpus_of(layout, node, there)
    if missing := len(node.model_of_each_gpu) - len(gpus):
        raise UsageError(
            f"the device plugin treats all GPUs of a node alike, the layout leaves out {missing} of "
            f"{len(node.model_of_each_gpu)}: plan for all of them"
        )
    head, config = _of_mig(gpus) if layout.backend == "mig" else _shared(gpus, layout.backend)
    on_cores = [gmi for device in layout.devices if device.kind == "cpu" for gmi in device.gmis]
    if on_cores:
        cores = 1 + max(core for gmi in layout.gmis for core in gmi.cores)
        head.append(f"and for cpu: {cores}, as GMIs on cores are in the same pod: {roles_told(on_cores)}")
    return commented(head) + write_yaml({"version": "v1", **config})


def _shared(gpus: list[CutGpu], backend: str) -> tuple[list[str], dict[str, Any]]:
    counts = sorted({len(gpu.gmis) for gpu in gpus})
    if len(counts) > 1:
        raise UsageError(
            f"the device plugin cuts all GPUs of a node alike, the layout has {counts[0]} to {counts[-1]} GMIs "
            "on a GPU: give each as many"
        )
    (count,) = counts
    if backend == "mps":
        _require_equal(gpus, count)
    flags = {"flags": {"migStrategy": "none"}}
    if count == 1:
        return [f"GPUs are not shared. The pod of a run asks for {GPU}: {len(gpus)}"], flags
    way = "mps" if backend == "mps" else "timeSlicing"
    head = [f"Each GPU is {GPU} {count} times, and a pod asks for {GPU}: 1", *ONE_POD, *_caps(gpus, backend)]
    return head, {**flags, "sharing": {way: {"resources": [{"name": GPU, "replicas": count}]}}}


def _caps(gpus: list[CutGpu], backend: str) -> list[str]:
    """A remark about caps that the plugin adds if the layout has no `share`."""
    if backend != "mps" or all(gmi.share for gpu in gpus for gmi in gpu.gmis):
        return []
    percent = thread_percentage(1 / len(gpus[0].gmis))
    return [f"By MPS the plugin caps each GMI at {percent} % of the SMs and as much memory; the layout does not."]


def _require_equal(gpus: list[CutGpu], count: int) -> None:
    """Refuse unequal shares and memory limits: the plugin gives each of N replicas an Nth of SMs and memory."""
    equal = thread_percentage(1 / count)
    shares = {gmi.id: thread_percentage(gpu.part(gmi)) for gpu in gpus for gmi in gpu.gmis}
    if uneven := [gmi_id for gmi_id, percent in shares.items() if percent != equal]:
        examples = ", ".join(f"GMI {gmi_id}: {shares[gmi_id]} %" for gmi_id in uneven[:4])
        raise UsageError(
            f"the device plugin gives each of {count} GMIs {equal} % of the SMs, the layout others ({examples}): "
            "leave `share` out, or take --format slurm or env"
        )
    if limited := [gmi.id for gpu in gpus for gmi in gpu.gmis if gmi.memory_limit_bytes is not None]:
        raise UsageError(
            f"the device plugin limits each of {count} GMIs to 1/{count} of the memory and takes no "
            f"`memory_limit_bytes`, which {counted(len(limited), 'GMI')} of the layout have: leave it out, or take "
            "--format slurm or env"
        )
    if count > MOST_CLIENTS:
        raise UsageError(f"the device plugin shares a GPU by MPS among {MOST_CLIENTS} at most, not {count}")


def _of_mig(gpus: list[CutGpu]) -> tuple[list[str], dict[str, Any]]:
    """The config for MIG: `single` if all instances are alike, so that each is a GPU; else `mixed`, by names."""
    for gpu in gpus:
        placed(gpu)  # refuses what does not fit
    names = Counter(name for gpu in gpus for name in instance_names(gpu))
    single = len(names) == 1
    resources = {name: GPU if single else f"nvidia.com/mig-{name.replace('+', '.')}" for name in names}
    asked = ", ".join(f"{resources[name]}: {count}" for name, count in names.items())
    head = [
        f"The pod of a run asks for {asked}",
        "The instances themselves are made by mig-parted, which the GPU operator has (--format mig-parted).",
    ]
    return head, {"flags": {"migStrategy": "single" if single else "mixed"}}
