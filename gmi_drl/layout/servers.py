"""Which policy workers answer which actors, from the layout alone (template `workers`)."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from gmi_drl.layout.layout import GMI, Layout


@dataclass(frozen=True)
class Service:
    """The inference stream of a layout.

    Args:
        servers: Ids of the policy workers, in order. The first makes the memory.
        clients: For each of them the ids of the actors that it answers.
    """

    servers: tuple[int, ...]
    clients: tuple[tuple[int, ...], ...]

    def server_of(self, client: int) -> int:
        """The policy worker that answers an actor."""
        return next(server for server, ours in zip(self.servers, self.clients, strict=True) if client in ours)


def policy_workers(layout: Layout) -> tuple[GMI, ...]:
    """The GMIs of a layout with streams that only act, for actors on other GMIs."""
    return tuple(gmi for gmi in layout.gmis if gmi.roles == ("agent",)) if layout.streams else ()


def actors_without_agent(layout: Layout) -> tuple[GMI, ...]:
    """The GMIs that simulate and get their actions from others."""
    return tuple(gmi for gmi in layout.gmis if gmi.roles == ("simulator",))


def service_of(layout: Layout) -> Service | None:
    """The inference stream of a layout, whose policy workers share the actors evenly; None if it has none."""
    servers = [gmi.id for gmi in policy_workers(layout)]
    clients = [gmi.id for gmi in actors_without_agent(layout)]
    return Service(tuple(servers), shared_evenly(clients, servers)) if servers else None


def shared_evenly(clients: Sequence[int], servers: Sequence[int]) -> tuple[tuple[int, ...], ...]:
    """The clients of each server: consecutive ones, whose numbers differ by one at most."""
    ends = [round(len(clients) * number / len(servers)) for number in range(len(servers) + 1)]
    return tuple(tuple(clients[first:last]) for first, last in pairwise(ends))
