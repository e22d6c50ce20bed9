"""From a workload and a node to a layout."""

from typing import Literal

from gmi_drl.hardware import Node
from gmi_drl.layout import Layout, Projection
from gmi_drl.templates import tcg_ex
from gmi_drl.workload import TaskSpec

TRAINERS = "trainers"
"""The group of the GMIs whose gradients are summed."""


STORES_IN_ORDER = ("x86_64", "AMD64")
"""Processors whose order of stores the reduction in shared memory relies on; the others use gloo."""


def plan(
    task: TaskSpec,
    node: Node,
    *,
    num_env: int,
    gmis_per_device: int | None = None,
) -> Layout:
    """Cut a node evenly for synchronous PPO training. Nothing is measured, and the layout says so.

    Args:
        task: What is trained.
        node: Where.
        num_env: Environments of each GMI.
        gmis_per_device: None for one per physical core (one per GPU).

    Raises:
        NoFeasiblePlanError: if the node cannot hold so many GMIs.
    """
    reduction: Literal["MPR-shm", "MPR-gloo"] = "MPR-shm" if node.cpu.architecture in STORES_IN_ORDER else "MPR-gloo"
    devices = tcg_ex(node, gmis_per_device, num_env)
    ids = tuple(gmi.id for device in devices for gmi in device.gmis)
    cut = (
        f"{len(devices)} {'GPUs' if node.num_gpus else 'CPU devices'}" if len(devices) > 1 else devices[0].kind.upper()
    )
    reasons = [
        "no profile was given and nothing was measured: the devices are cut evenly",
        f"{len(ids)} GMIs on the {cut} of {node.name}, {num_env} environments each",
        "TCG_EX: simulator, agent and trainer share a GMI, so only gradients cross its border (paper section 5.1)",
    ]
    if len(ids) > 1:
        reasons.append(f"{reduction}: gradients meet in host memory (multi-process reduction, paper section 4.1)")
    return Layout(
        task=task.name,
        algo="ppo",
        template="TCG_EX",
        reduction=reduction if len(ids) > 1 else "none",
        devices=devices,
        groups={TRAINERS: ids},
        projection=Projection(measured=False),
        reasons=tuple(reasons),
    )
