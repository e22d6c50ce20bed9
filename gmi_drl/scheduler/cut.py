"""Even layouts: every device is cut into GMIs of the same size."""

from collections.abc import Sequence

from gmi_drl.hardware import Node
from gmi_drl.layout import GmiGroup, Layout, Projection
from gmi_drl.reductions import usual_reduction
from gmi_drl.templates import tcg_ex
from gmi_drl.units import counted
from gmi_drl.workload import TaskSpec

TRAINERS = "trainers"
"""The group of the GMIs whose gradients are summed."""

UNMEASURED = Projection(measured=False)


def even_layout(
    task: TaskSpec,
    node: Node,
    gmis_per_gpu: int | None,
    num_env: int,
    projection: Projection = UNMEASURED,
    why: Sequence[str] = (),
) -> Layout:
    """An even TCG_EX layout of the node.

    Args:
        task: What is trained.
        node: Where.
        gmis_per_gpu: None for one per physical core (one per GPU).
        num_env: Environments of each GMI.
        projection: What is expected of it.
        why: Reasons that go before those of its form.

    Raises:
        NoFeasiblePlanError: if the node cannot hold so many GMIs.
    """
    devices = tcg_ex(node, gmis_per_gpu, num_env)
    ids = tuple(gmi.id for device in devices for gmi in device.gmis)
    method = usual_reduction(len(ids), node.cpu.architecture)
    kind = devices[0].kind.upper()
    cut = f"{len(devices)} {kind} devices" if len(devices) > 1 else kind
    each = f", {num_env} environments each" if len(ids) > 1 else f", {num_env} environments"
    reasons = [
        *why,
        f"{counted(len(ids), 'GMI')} on the {cut} of {node.name}{each}",
        "TCG_EX: simulator, agent and trainer share a GMI, so only gradients cross its border (paper section 5.1)",
    ]
    if len(ids) > 1:
        reasons.append(f"{method.name}: {method.how}")
    return Layout(
        task=task.name,
        template="TCG_EX",
        devices=devices,
        groups={TRAINERS: GmiGroup(members=ids, reduction=method.name)},
        projection=projection,
        reasons=tuple(reasons),
    )
