"""Pools: which agents send experience to which trainers, in layouts over several machines."""

from dataclasses import dataclass

from gmi_drl.layout.layout import Layout


@dataclass(frozen=True)
class Pool:
    """GMIs that share channels: all trainers of a node, which has the memory, and the agents that send to them.

    Args:
        node: The node of the trainers; None: the only machine.
        agents: Ids of the agents, in order.
        trainers: Ids of the trainers, in order. The first one creates the memory and publishes the parameters.
    """

    node: str | None
    agents: tuple[int, ...]
    trainers: tuple[int, ...]


def pools_of(layout: Layout) -> tuple[Pool, ...]:
    """The pools of a layout: one for each node with trainers. Each agent is in exactly one.

    Agents on a node with trainers send to these. Each of the others, by ascending id, joins the pool with the fewest
    agents per trainer, the first of several.
    """
    trainers: dict[str | None, list[int]] = {}
    for gmi in layout.with_role("trainer"):
        trainers.setdefault(layout.device_of(gmi.id).node, []).append(gmi.id)
    agents: dict[str | None, list[int]] = {node: [] for node in layout.nodes if node in trainers}
    if not agents:
        return ()
    elsewhere: list[int] = []
    for gmi in layout.with_role("agent"):
        if "trainer" not in gmi.roles:
            agents.get(layout.device_of(gmi.id).node, elsewhere).append(gmi.id)
    for gmi_id in elsewhere:
        fewest = min(agents, key=lambda node: len(agents[node]) / len(trainers[node]))
        agents[fewest].append(gmi_id)
    return tuple(Pool(node, tuple(sorted(acting)), tuple(trainers[node])) for node, acting in agents.items())


def pool_of(layout: Layout, gmi_id: int) -> Pool:
    """The pool of an agent or a trainer.

    Raises:
        KeyError: if it is in none.
    """
    for pool in pools_of(layout):
        if gmi_id in pool.agents or gmi_id in pool.trainers:
            return pool
    raise KeyError(f"GMI {gmi_id} is in no pool")


def far_agents(layout: Layout) -> dict[int, Pool]:
    """The agents that send experience to another host, by id, with their pools."""
    if layout.channels is None or len(layout.nodes) == 1:
        return {}
    far = {
        gmi_id: pool
        for pool in pools_of(layout)
        for gmi_id in pool.agents
        if layout.device_of(gmi_id).node != pool.node
    }
    return dict(sorted(far.items()))
