"""Communication between GMIs: groups, gradient reductions and messages (paper section 4.1).

Torch is imported with what is opened.
"""

import platform
from typing import TYPE_CHECKING

from gmi_drl.comm.membership import Membership
from gmi_drl.errors import MachineError, UsageError
from gmi_drl.layout.mapping import select_by_layout
from gmi_drl.layout.reduction_method import ReductionMethod
from gmi_drl.layout.reductions import refusal, usual_reduction
from gmi_drl.registry import class_at

if TYPE_CHECKING:
    import torch

    from gmi_drl.comm.group import Group
    from gmi_drl.comm.reduction import Reduction
    from gmi_drl.comm.rendezvous import Rendezvous

__all__ = ["open_group", "open_reduction", "select_by_layout"]


def open_group(method: ReductionMethod, member: Membership, rendezvous: "Rendezvous") -> "Group":
    """Join a group. Returns when all ranks have joined.

    Args:
        method: How the group's gradients will be summed, which decides how the ranks meet.
        member: This process.
        rendezvous: Where it meets the others.

    Raises:
        UsageError: If the method is not for such a group, or the rendezvous lacks something that it needs.
        MachineError: If this machine cannot.
        PeerDiedError: If another rank has ended before it joined, where that can be seen.
        PeerSilentError: If the others have not joined within `hang_s`.
    """
    if obstacle := refusal(method, member.mapping):
        raise UsageError(obstacle)
    here = platform.machine()
    if not method.runs_on(here):
        usual, processors = usual_reduction(member.mapping, here).name, ", ".join(method.architectures or ())
        raise MachineError(f"{method.name} needs a processor of {processors}, this is {here}: use {usual}")
    if missing := method.missing():
        raise MachineError(missing)
    if lacks := rendezvous.lacks(method):
        raise UsageError(f"{method.name} needs a rendezvous with {' and '.join(lacks)}")
    group: Group = class_at(method.group)(member, rendezvous)
    return group


def open_reduction(method: ReductionMethod, group: "Group", device: "torch.device | str" = "cpu") -> "Reduction":
    """The reduction of a group that `open_group` opened for the same method, for buckets on a device."""
    reduction: Reduction = class_at(method.reduction)(group, device)
    return reduction
