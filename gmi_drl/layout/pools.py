"""Pools: which agents send experience to which trainers, in layouts over several machines."""

from collections.abc import Set
from dataclasses import dataclass

from gmi_drl.layout.layout import Layout
from gmi_drl.layout.policies import layouts_of
from gmi_drl.layout.servers import policy_workers, services_of


@dataclass(frozen=True)
class Pool:
    """GMIs that share channels: all trainers of a node, which has the memory, and the agents that send to them.

    Args:
        node: The node of the trainers; None: the only machine.
        agents: Ids of the GMIs that simulate, and send experience, in order.
        trainers: Ids of the trainers, in order. The first one creates the memory and publishes the parameters.
        policy_workers: Ids of the GMIs that read the parameters and send no experience: those of that node, and for
            each node without trainers the one that passes them on there (`receivers`).
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
    serving: dict[str | None, list[int]] = {node: [] for node in agents}
    for gmi in policy_workers(layout):
        if (node := layout.device_of(gmi.id).node) in serving:
            serving[node].append(gmi.id)
    serving[next(iter(agents))] += [first for first, *_ in receivers(layout).values()]
    return tuple(
        Pool(node, tuple(sorted(acting)), tuple(trainers[node]), tuple(sorted(serving[node])))
        for node, acting in agents.items()
    )


def receivers(layout: Layout) -> dict[str | None, tuple[int, ...]]:
    """The policy workers of each node without trainers, in order.

    The first receives the parameters, from the first pool, and passes them on to the others by memory.
    """
    training = {layout.device_of(gmi.id).node for gmi in layout.with_role("trainer")}
    found: dict[str | None, tuple[int, ...]] = {}
    for gmi in policy_workers(layout):
        if training and (node := layout.device_of(gmi.id).node) not in training:
            found[node] = (*found.get(node, ()), gmi.id)
    return found


def pool_of(layout: Layout, gmi_id: int) -> Pool:
    """The pool of an agent, a trainer, or a policy worker that the pool has.

    Raises:
        KeyError: if it is in none.
    """
    for pool in pools_of(layout):
        if gmi_id in (*pool.agents, *pool.trainers, *pool.policy_workers):
            return pool
    raise KeyError(f"GMI {gmi_id} is in no pool")


def far_readers(layout: Layout) -> dict[int, Pool]:
    """The policy workers that receive parameters from another host, by id, with their pools."""
    firsts = [first for first, *_ in receivers(layout).values()]
    pools = pools_of(layout) if firsts else ()
    return {first: next(pool for pool in pools if first in pool.policy_workers) for first in firsts}


def proxied(layout: Layout) -> dict[int, Pool]:
    """The GMIs that have a proxy on the host of a pool, by id, with that pool: far agents and far readers."""
    return dict(sorted((far_agents(layout) | far_readers(layout)).items()))


def proxy_processes(layout: Layout) -> dict[int, tuple[int, ...]]:
    """The processes of proxies, one for each pair of hosts: the GMIs that have their proxy there, by the first one."""
    pairs: dict[tuple[str | None, str | None], list[int]] = {}
    for gmi_id, pool in proxied(layout).items():
        pairs.setdefault((pool.node, layout.device_of(gmi_id).node), []).append(gmi_id)
    return {first: (first, *others) for first, *others in pairs.values()}


def goes_on_without(layout: Layout, lost: Set[int]) -> bool:
    """Whether a run goes on without these actors: `streams.fewest_actors` are left, and nobody has lost all of its own.

    Trainers of a node and policy workers need one actor each.
    """
    actors = {gmi.id for gmi in layout.with_role("simulator")}
    if layout.streams is None or layout.streams.fewest_actors is None or not lost <= actors:
        return False
    seen = layouts_of(layout).values()
    needs = [set(pool.agents) for one in seen for pool in pools_of(one)]
    needs += [set(clients) for one in seen for service in services_of(one) for clients in service.clients]
    return len(actors - lost) >= layout.streams.fewest_actors and all(need - lost for need in needs)


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
