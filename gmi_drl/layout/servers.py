"""Which policy workers answer which actors, from the layout alone (template `workers`)."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain, pairwise

from gmi_drl.layout.layout import GMI, Layout


@dataclass(frozen=True)
class Service:
    """The inference stream of a host: its policy workers, and all that they answer.

    Args:
        node: Of the policy workers; None: the only machine.
        servers: Ids of the policy workers, in order. The first makes the memory.
        clients: For each of them the ids of the actors that it answers, perhaps of other nodes.
    """

    node: str | None
    servers: tuple[int, ...]
    clients: tuple[tuple[int, ...], ...]

    def server_of(self, client: int) -> int:
        """The policy worker that answers an actor."""
        return next(server for server, ours in zip(self.servers, self.clients, strict=True) if client in ours)

    def clients_of(self, server: int) -> tuple[int, ...]:
        """The actors that a policy worker answers."""
        return self.clients[self.servers.index(server)]


def policy_workers(layout: Layout) -> tuple[GMI, ...]:
    """The GMIs of a layout with streams that only act, for actors on other GMIs."""
    return tuple(gmi for gmi in layout.gmis if gmi.roles == ("agent",)) if layout.streams else ()


def actors_without_agent(layout: Layout) -> tuple[GMI, ...]:
    """The GMIs that simulate and get their actions from others."""
    return tuple(gmi for gmi in layout.gmis if gmi.roles == ("simulator",))


def services_of(layout: Layout) -> tuple[Service, ...]:
    """The inference streams of a layout: one for each node with policy workers. Each actor without an agent is in one.

    Policy workers share the actors of their node evenly. Each actor of another node, by ascending id, asks the one with
    the fewest actors, the first of several.
    """
    servers: dict[str | None, list[int]] = {}
    for worker in policy_workers(layout):
        servers.setdefault(layout.device_of(worker.id).node, []).append(worker.id)
    if not servers:
        return ()
    actors: dict[str | None, list[int]] = {node: [] for node in servers}
    elsewhere: list[int] = []
    for gmi in actors_without_agent(layout):
        actors.get(layout.device_of(gmi.id).node, elsewhere).append(gmi.id)
    clients: dict[int, list[int]] = {}
    for node, ids in servers.items():
        clients |= zip(ids, map(list, shared_evenly(actors[node], ids)), strict=True)
    for gmi_id in elsewhere:
        clients[min(clients, key=lambda server: len(clients[server]))].append(gmi_id)
    return tuple(
        Service(node, tuple(ids), tuple(tuple(sorted(clients[server])) for server in ids))
        for node, ids in servers.items()
    )


def service_of(layout: Layout, gmi_id: int) -> Service:
    """The inference stream of a policy worker, or of an actor without an agent.

    Raises:
        KeyError: if it is in none.
    """
    for service in services_of(layout):
        if gmi_id in (*service.servers, *chain.from_iterable(service.clients)):
            return service
    raise KeyError(f"GMI {gmi_id} is in no inference stream")


def far_clients(layout: Layout) -> dict[int, Service]:
    """The actors that ask a policy worker of another host, by id, with its inference stream."""
    return {
        client: service
        for service in services_of(layout)
        for client in chain.from_iterable(service.clients)
        if layout.device_of(client).node != service.node
    }


def shared_evenly(clients: Sequence[int], servers: Sequence[int]) -> tuple[tuple[int, ...], ...]:
    """The clients of each server: consecutive ones, whose numbers differ by one at most."""
    ends = [round(len(clients) * number / len(servers)) for number in range(len(servers) + 1)]
    return tuple(tuple(clients[first:last]) for first, last in pairwise(ends))
