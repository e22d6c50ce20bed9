"""Pools: which agents send experience to which trainers, in layouts over several machines."""

from dataclasses import dataclass

from gmi_drl.layout.layout import Layout
from gmi_drl.layout.servers import policy_workers


@dataclass(frozen=True)
class Pool:
    """GMIs that share channels: all trainers of a node, which has the memory, and the agents that send to them.

    Args:
        node: The node of the trainers; None: the only machine.
        agents: Ids of the GMIs that simulate, and send experience, in order.
        trainers: Ids of the trainers, in order. The first one creates the memory and publishes the parameters.
        policy_workers: Ids of the GMIs of that node that read the parameters and send no experience.
    """

    node: str | None
    agents: tuple[int, ...]
    trainers: tuple[int, ...]
    policy_workers: tuple[int, ...] = ()


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
    for gmi in layout.with_role("simulator"):
        if "trainer" not in gmi.roles:
            agents.get(layout.device_of(gmi.id).node, elsewhere).append(gmi.id)
    for gmi_id in elsewhere:
        fewest = min(agents, key=lambda node: len(agents[node]) / len(trainers[node]))
        agents[fewest].append(gmi_id)
    serving: dict[str | None, tuple[int, ...]] = {
        node: tuple(gmi.id for gmi in policy_workers(layout) if layout.device_of(gmi.id).node == node)
        for node in agents
    }
    return tuple(
        Pool(node, tuple(sorted(acting)), tuple(trainers[node]), serving[node]) for node, acting in agents.items()
    )


def pool_of(layout: Layout, gmi_id: int) -> Pool:
    """The pool of an agent, a trainer or a policy worker.

    Raises:
        KeyError: if it is in none.
    """
    for pool in pools_of(layout):
        if gmi_id in (*pool.agents, *pool.trainers, *pool.policy_workers):
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
