"""Which backends a plan looks at, and which it takes where nothing was measured."""

from gmi_drl.hardware.node import Node
from gmi_drl.layout.backends import AUTO, BACKENDS, MIG, MIG_CI, MPS, PROCESS
from gmi_drl.layout.cut import Cut
from gmi_drl.templates import Purpose, backend_refusal

ON_GPUS = (PROCESS, MPS, MIG, MIG_CI)
"""Ours, the one that needs nothing first."""


def backends_to_try(asked: str | None, node: Node) -> tuple[str, ...]:
    """The one that was asked for; with `auto`, or on GPUs where nobody says, all that the GPUs can be cut by."""
    if asked not in (None, AUTO.name):
        return (BACKENDS.find(asked).name,)
    return tuple(entry.name for entry in ON_GPUS if can_cut(entry.name, node)) if node.num_gpus else (PROCESS.name,)


def can_cut(backend: str, node: Node, gmis: int = 1) -> bool:
    """Whether every GPU of a node can be cut so, as far as the catalogue tells."""
    return backend_refusal(node, Cut(gmis, 1, backend), 0) is None


def unmeasured_choice(node: Node, purpose: Purpose, gmis: int) -> tuple[str, str]:
    """What `auto` takes for a described node of which nothing was measured, and why.

    Training wants its GMIs to reach each other's memory, serving wants that none disturbs another.
    """
    if not node.num_gpus:
        return PROCESS.name, f"backend {PROCESS.name}: cores need no other"
    wanted = MIG if purpose == "serving" and can_cut(MIG.name, node, gmis) else MPS
    return wanted.name, f"backend {wanted.name}, by what {purpose} wants, nothing was measured: {wanted.trade}"
