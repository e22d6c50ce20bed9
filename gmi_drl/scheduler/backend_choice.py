"""Chooses the backends that a plan tries, and the one that it takes if nothing was measured."""

from gmi_drl.hardware.node import Node
from gmi_drl.layout.backends import AUTO, BACKENDS, MIG, MIG_CI, MPS, PROCESS
from gmi_drl.layout.cut import Cut
from gmi_drl.templates import Purpose, backend_refusal

ON_GPUS = (PROCESS, MPS, MIG, MIG_CI)
"""Our backends for GPUs; first the one that needs no setup."""


def backends_to_try(asked: str | None, node: Node) -> tuple[str, ...]:
    """The requested backend. With `auto`, or on GPUs without a request, all that can cut these GPUs."""
    if asked not in (None, AUTO.name):
        return (BACKENDS.find(asked).name,)
    return tuple(entry.name for entry in ON_GPUS if can_cut(entry.name, node)) if node.num_gpus else (PROCESS.name,)


def can_cut(backend: str, node: Node, gmis: int = 1) -> bool:
    """Whether the backend can cut every GPU of a node into `gmis`, by the catalogue."""
    return backend_refusal(node, Cut(gmis, 1, backend), 0) is None


def unmeasured_choice(node: Node, purpose: Purpose, gmis: int) -> tuple[str, str]:
    """The backend that `auto` takes for a node without measurements, and a sentence that says why.

    In training GMIs should reach each other's memory; in serving none should disturb another.
    """
    if not node.num_gpus:
        return PROCESS.name, f"backend {PROCESS.name}: cores need no other"
    wanted = MIG if purpose == "serving" and can_cut(MIG.name, node, gmis) else MPS
    return wanted.name, f"backend {wanted.name}, by what {purpose} wants, nothing was measured: {wanted.trade}"
