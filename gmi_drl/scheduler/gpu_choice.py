"""Chooses the GPUs of a node that a plan uses, and says how they are linked."""

from collections.abc import Sequence

from gmi_drl.hardware.links import best_linked, slowest_link
from gmi_drl.hardware.node import LinkKind, Node
from gmi_drl.layout.layout import Layout
from gmi_drl.units import human_ranges

LINK_NAMES: dict[LinkKind, str] = {"nvswitch": "NVSwitch", "nvlink": "NVLink", "pcie": "PCIe", "none": "nothing known"}
"""A link in words."""


def with_gpus(node: Node, count: int) -> Node:
    """The node with only `count` of its GPUs in use: those with the best links.

    Raises:
        UsageError: if it has fewer.
    """
    return node.only(best_linked(node, count))


def why_these_gpus(layout: Layout, node: Node) -> list[str]:
    """A sentence that says which GPUs are used, and how those that reduce together are linked.

    Empty if all GPUs are used and linked alike.
    """
    every, gpus = len(node.model_of_each_gpu), list(node.gpu_indices)
    chosen = f"uses {_named(gpus)} of {every}" if len(gpus) < every else ""
    reduces = len(gpus) > 1 and any(len(group.members) > 1 for group in layout.groups.values())
    linked = _how_linked(node, gpus) if reduces and (chosen or node.links) else ""
    return [": ".join(filter(None, (chosen, linked)))] if chosen or linked else []


def _how_linked(node: Node, gpus: Sequence[int]) -> str:
    """The slowest link between these GPUs, and why there is no better one."""
    slowest = slowest_link(node, gpus) if node.links else node.link
    if not node.links:
        return f"all GPUs are linked alike, by {LINK_NAMES[slowest]}"
    islands = [(sorted(set(links.gpus) & set(gpus)), links.kind) for links in node.links]
    if any(len(island) == len(gpus) for island, _ in islands):
        return f"{LINK_NAMES[slowest]} links every two of them, which reduce together"
    parts = [f"{_named(island)} ({LINK_NAMES[kind]})" for island, kind in islands if len(island) > 1]
    covered = {gpu for island, _ in islands if len(island) > 1 for gpu in island}
    parts += ["the others"] if len(covered) < len(gpus) else []
    return f"no island has so many: only {LINK_NAMES[slowest]} is between {' and '.join(parts)}"


def _named(gpus: Sequence[int]) -> str:
    return f"GPU{'s' * (len(gpus) > 1)} {human_ranges(gpus)}"
