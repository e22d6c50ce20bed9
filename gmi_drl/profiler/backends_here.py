"""Finds the backends that can cut this machine's devices now."""

from collections.abc import Sequence

from gmi_drl.errors import LayoutMismatchError
from gmi_drl.hardware.node import Node
from gmi_drl.layout.cut import Cut
from gmi_drl.profiler.points import SMALL, refusal
from gmi_drl.templates import TCG, backend_refusal, devices_of, require_division
from gmi_drl.workload import TaskSpec


def backends_here(names: Sequence[str], task: TaskSpec, node: Node) -> tuple[tuple[str, ...], list[str]]:
    """The backends of `names` that can cut each device in two, and a sentence for each that cannot.

    If there is one name, or devices hold one GMI only, a backend need only give whole devices.

    Raises:
        NoFeasiblePlanError: if the only one cannot cut GPUs of these models at all.
        LayoutMismatchError: if none of them can.
    """
    gmis = min(2, devices_of(node)[1]) if len(names) > 1 else 1
    if len(names) == 1:
        require_division(node, Cut(gmis, SMALL[0], names[0]))
    refused = {name: _refusal(task, node, Cut(gmis, SMALL[0], name)) for name in names}
    left_out = [f"backend {name} is left out, it cannot be had here: {why}" for name, why in refused.items() if why]
    if all(refused.values()):
        raise LayoutMismatchError("; ".join(left_out))
    return tuple(name for name in names if not refused[name]), left_out


def _refusal(task: TaskSpec, node: Node, cut: Cut) -> str:
    """Why a backend cannot make a cut here, or on GPUs of these models at all; empty if it can."""
    return backend_refusal(node, cut, memory_bytes=0) or refusal(node, TCG.lay_out(task, node, cut))
