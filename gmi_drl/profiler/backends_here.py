"""Which backends can cut this machine's devices now."""

from collections.abc import Sequence

from gmi_drl.errors import LayoutMismatchError
from gmi_drl.hardware.node import Node
from gmi_drl.layout.cut import Cut
from gmi_drl.profiler.points import SMALL, refusal
from gmi_drl.templates import TCG, devices_of
from gmi_drl.workload import TaskSpec


def backends_here(names: Sequence[str], task: TaskSpec, node: Node) -> tuple[tuple[str, ...], list[str]]:
    """Those of some backends that can cut each device in two, and why not the others, in sentences.

    One that is alone need only be able to give whole devices.

    Raises:
        LayoutMismatchError: if this machine can have none of them.
    """
    gmis = min(2, devices_of(node)[1]) if len(names) > 1 else 1
    refused = {name: refusal(node, TCG.lay_out(task, node, Cut(gmis, SMALL[0], name))) for name in names}
    told = [f"backend {name} is left out, it cannot be had here: {why}" for name, why in refused.items() if why]
    if all(refused.values()):
        raise LayoutMismatchError("; ".join(told))
    return tuple(name for name in names if not refused[name]), told
