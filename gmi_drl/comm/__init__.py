"""Communication between GMIs: groups and gradient reductions (paper section 4.1). Torch comes with what is opened."""

import platform
from pathlib import Path
from typing import TYPE_CHECKING

from gmi_drl.errors import MachineError, UsageError
from gmi_drl.reductions import ReductionMethod, usual_reduction
from gmi_drl.registry import class_at

if TYPE_CHECKING:
    import torch

    from gmi_drl.comm.group import Group
    from gmi_drl.comm.reduction import Reduction

__all__ = ["open_group", "open_reduction"]


def open_group(
    method: ReductionMethod,
    rank: int,
    size: int,
    *,
    fd: int | None = None,
    path: Path | None = None,
    hang_s: float = 300.0,
) -> "Group":
    """Join the group of `size` ranks as `rank`; returns when all have joined.

    Args:
        method: How its gradients will be summed, which decides how the ranks meet.
        rank: This process, from 0.
        size: Processes in the group.
        fd: The inherited descriptor of a segment, where the method meets in one.
        path: Where the ranks meet, unused before, where the method meets at one.
        hang_s: Seconds after which a peer that lives counts as silent.

    Raises:
        UsageError: If the method does not fit the size, or lacks its descriptor or path.
        MachineError: If this machine cannot.
        PeerSilentError: If the others have not joined within `hang_s`.
    """
    if not 0 <= rank < size:
        raise UsageError(f"rank {rank} is not in a group of {size}")
    if obstacle := method.obstacle(size):
        raise UsageError(obstacle)
    if obstacle := method.obstacle(size, platform.machine()):
        raise MachineError(f"{obstacle}: use {usual_reduction(size, platform.machine()).name}")
    meeting = {"segment": fd, "path": path}
    place = meeting.get(method.meets_in)
    if method.meets_in in meeting and place is None:
        raise UsageError(f"{method.name} needs the {method.meets_in} where its ranks meet")
    group: Group = class_at(method.group)(rank, size, place, hang_s)
    return group


def open_reduction(method: ReductionMethod, group: "Group", device: "torch.device | str" = "cpu") -> "Reduction":
    """The reduction of a group that `open_group` opened for the same method, for buckets on a device."""
    reduction: Reduction = class_at(method.reduction)(group, device)
    return reduction
