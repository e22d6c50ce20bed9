"""Chooses the GPUs of a node with the best links: NVLink islands, pairs of a bridge. Pure.

The slowest link between GPUs that reduce with each other sets their pace. So four GPUs of one island are better than
two of each of two islands.
"""

from collections.abc import Iterable
from itertools import combinations

from gmi_drl.errors import UsageError
from gmi_drl.hardware.node import KINDS, LinkKind, Node
from gmi_drl.units import counted


def link_between(node: Node, one: int, other: int) -> LinkKind:
    """The link between two GPUs of a node, by index."""
    return next((links.kind for links in node.links if {one, other} <= set(links.gpus)), node.link)


def slowest_link(node: Node, gpus: Iterable[int]) -> LinkKind:
    """The worst link between any two of these GPUs; "none" for a single one."""
    return max((link_between(node, *pair) for pair in combinations(gpus, 2)), key=KINDS.index, default="none")


def best_linked(node: Node, count: int) -> tuple[int, ...]:
    """The indices of `count` of the GPUs in use with the best links between them, ascending.

    They are from the smallest island that is large enough, so that larger ones stay whole. If none is, the best and
    largest islands are taken whole, one after the other.

    Raises:
        UsageError: If the node has fewer GPUs.
    """
    if count > node.num_gpus:
        verb = "is" if count == 1 else "are"
        remedy = "ask for as many at most" if node.num_gpus else "ask for none"
        raise UsageError(f"{counted(count, 'GPU')} {verb} asked for, {node.name} has {node.num_gpus}: {remedy}")
    parts = [(KINDS.index(links.kind), sorted(set(links.gpus).intersection(node.gpu_indices))) for links in node.links]
    for _, gpus in sorted(parts, key=lambda part: (part[0], len(part[1]))):
        if len(gpus) >= count:
            return tuple(gpus[:count])
    largest = sorted(parts, key=lambda part: (part[0], -len(part[1])))
    in_order = [gpu for _, gpus in largest for gpu in gpus]
    chosen = list(dict.fromkeys([*in_order, *node.gpu_indices]))[:count]
    return tuple(sorted(chosen))
