"""Nodes of actors without which a run may start, and which may join it later (`streams.fewest_actors`)."""

from collections.abc import Set

from gmi_drl.layout.layout import Layout
from gmi_drl.layout.policies import layouts_of
from gmi_drl.layout.pools import goes_on_without, pools_of


def late_nodes(layout: Layout) -> frozenset[str]:
    """The nodes that may join later: they only have actors, without which the run goes on.

    The first actor of each pool is not on them: it tells the trainers what the task is like.
    """
    first = {pool.agents[0] for one in layouts_of(layout).values() for pool in pools_of(one) if pool.agents}
    return frozenset(
        node
        for node in layout.nodes
        if node is not None and first.isdisjoint(ids := gmis_on(layout, {node})) and goes_on_without(layout, ids)
    )


def late_actors(layout: Layout) -> frozenset[int]:
    """The ids of the actors that may join later."""
    return gmis_on(layout, late_nodes(layout))


def starts_without(layout: Layout, nodes: Set[str]) -> bool:
    """Whether a run may start without these nodes."""
    return not nodes or (nodes <= late_nodes(layout) and goes_on_without(layout, gmis_on(layout, nodes)))


def gmis_on(layout: Layout, nodes: Set[str]) -> frozenset[int]:
    """The ids of the GMIs on some nodes."""
    return frozenset(gmi.id for device in layout.devices if device.node in nodes for gmi in device.gmis)
