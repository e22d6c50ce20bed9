"""Assigns the nodes of a layout to those of a cluster, and reserves their cores and GPUs for a run."""

import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from gmi_drl.errors import InUseError, LayoutMismatchError
from gmi_drl.launch.ray.cluster import RayNode
from gmi_drl.layout.layout import Layout

if TYPE_CHECKING:
    from ray.util.placement_group import PlacementGroup

JOINED_S = 30.0
"""Deadline for nodes that are still joining the cluster."""

LOOK_S = 0.5

PLACED_S = 30.0
"""Deadline for resources that others use."""

LEAST_OF_AN_ID = 6

NODE_VARIABLE = "GMI_DRL_RAY_NODE"
"""The id of the cluster's node that a layout of one node must get: a sweep sets it for the slots of each node."""

LayoutNode = str | None
"""A node's name in a layout; None in a layout of one unnamed machine."""


class Share(NamedTuple):
    """The resources that a run takes on a node: cores and whole GPUs."""

    cpus: int
    gpus: int

    def __str__(self) -> str:
        return f"{self.cpus} CPUs" + (f" and {self.gpus} GPUs" if self.gpus else "")


def shares_of(layout: Layout) -> dict[LayoutNode, Share]:
    """The resources that a layout takes, by node.

    A layout's indices count within the GPUs that Ray assigns to us, so all up to the highest index are taken.
    """
    return {node: _share(layout, node) for node in layout.nodes}


def _share(layout: Layout, node: LayoutNode) -> Share:
    devices = layout.devices_on(node)
    cores = {core for device in devices for gmi in device.gmis for core in gmi.cores}
    gpus = [device.index for device in devices if device.kind == "gpu"]
    return Share(len(cores), max(gpus, default=-1) + 1)


def assigned(shares: Mapping[LayoutNode, Share], nodes: Sequence[RayNode]) -> dict[LayoutNode, RayNode]:
    """Choose a node of the cluster for each node of the layout.

    A node whose name is a name, an address or an id (at least six digits) of one in the cluster gets that one. The
    others, the largest first, each get the smallest free node with enough resources; of equal ones, this machine.

    Args:
        shares: The resources for each node of the layout.
        nodes: The nodes of the cluster, in the order of preference among equals.

    Raises:
        LayoutMismatchError: if there are too few nodes, they are too small, or two are one; the message lists them.
    """
    named = {name: found for name in shares if (found := _named(name, nodes))}
    taken = {node.id for node in named.values()}
    if len(taken) < len(named):  # e.g. by its name and its address
        ids = [node.id for node in named.values()]
        raise _mismatch(next(name for name, node in named.items() if ids.count(node.id) > 1), shares, nodes)
    unnamed = [name for name in shares if name not in named]
    for name in sorted(unnamed, key=lambda name: (-shares[name].gpus, -shares[name].cpus)):
        fitting = [node for node in nodes if node.id not in taken and _has(node, shares[name])]
        if not fitting:
            raise _mismatch(name, shares, nodes)
        named[name] = min(fitting, key=lambda node: (node.gpus, not node.is_here, node.cpus))
        taken.add(named[name].id)
    for name, node in named.items():
        if not _has(node, shares[name]):
            raise _mismatch(name, shares, nodes)
    return {name: named[name] for name in shares}


def assigned_in_time(
    shares: Mapping[LayoutNode, Share], nodes: Callable[[], Sequence[RayNode]], wait_s: float = JOINED_S
) -> dict[LayoutNode, RayNode]:
    """As `assigned`, for a cluster whose nodes may still be joining: retries for `wait_s`."""
    until = time.monotonic() + wait_s
    while True:
        try:
            return assigned(shares, nodes())
        except LayoutMismatchError:
            if time.monotonic() > until:
                raise
        time.sleep(LOOK_S)


def on_wanted(shares: Mapping[LayoutNode, Share], nodes: Sequence[RayNode]) -> list[RayNode]:
    """The nodes that a layout may have: all, or the one that `NODE_VARIABLE` names."""
    wanted = os.environ.get(NODE_VARIABLE) if len(shares) == 1 else None
    return [node for node in nodes if wanted in (None, node.id)]


def _named(name: LayoutNode, nodes: Sequence[RayNode]) -> RayNode | None:
    if name is None:
        return None
    is_id = len(name) >= LEAST_OF_AN_ID
    fitting = [node for node in nodes if name in (node.name, node.address) or (is_id and node.id.startswith(name))]
    return fitting[0] if len(fitting) == 1 else None


def _has(node: RayNode, share: Share) -> bool:
    return node.cpus >= share.cpus and node.gpus >= share.gpus


def _mismatch(name: LayoutNode, shares: Mapping[LayoutNode, Share], nodes: Sequence[RayNode]) -> LayoutMismatchError:
    wanted = ", ".join(f"{node or 'its node'} {share}" for node, share in shares.items())
    has = ", ".join(f"{node.name} {Share(node.cpus, node.gpus)}" for node in nodes)
    return LayoutMismatchError(
        f"no node of the Ray cluster is left for {name or 'the layout'}, which takes {shares[name]}. "
        f"The layout takes: {wanted}. The cluster has: {has}. Plan for it, or add nodes by `ray start --address`"
    )


@contextmanager
def placed(
    shares: Mapping[LayoutNode, Share], on: Mapping[LayoutNode, RayNode], wait_s: float = PLACED_S
) -> Iterator["PlacementGroup"]:
    """Reserve the shares for the time of a `with` block, by a placement group with a bundle per node in their order.

    Raises:
        InUseError: if others still use the resources after `wait_s`; the message says what each node lacks.
    """
    from ray.util.placement_group import placement_group, remove_placement_group

    group = placement_group(
        [_resources(share) for share in shares.values()],
        strategy="PACK",
        bundle_label_selector=[{"ray.io/node-id": on[name].id} for name in shares],
    )
    try:
        if not group.wait(wait_s):
            raise InUseError(
                f"Ray could not give us {'; '.join(_lacks(shares, on))} within {wait_s:g} s: others use it (`ray "
                "status`), or a node has gone (`gmi-drl doctor --cluster ray`)"
            )
        yield group
    finally:
        remove_placement_group(group)


def _resources(share: Share) -> dict[str, float]:
    wanted = {"CPU": float(share.cpus), "GPU": float(share.gpus)}
    return {name: amount for name, amount in wanted.items() if amount}


def _lacks(shares: Mapping[LayoutNode, Share], on: Mapping[LayoutNode, RayNode]) -> list[str]:
    """The missing resources by node; all of them if Ray does not report what is free."""
    from ray._private.state import available_resources_per_node  # no public API has it without the dashboard

    free = available_resources_per_node()
    lacks = []
    for name, share in shares.items():
        there = free.get(on[name].id, {})
        left = Share(int(there.get("CPU", 0)), int(there.get("GPU", 0)))
        if left.cpus < share.cpus or left.gpus < share.gpus:
            lacks.append(f"{share} of {on[name].name}, which has {left} free")
    return lacks or [f"{share} of {on[name].name}" for name, share in shares.items()]
