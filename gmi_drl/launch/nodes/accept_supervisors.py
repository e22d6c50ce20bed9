"""Accepts the connections of supervisors, which first send their node and host."""

import json
import math
import socket
import time
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass

from gmi_drl.comm.links.token_listener import Client, TokenListener, greeting
from gmi_drl.errors import MissingNodeError
from gmi_drl.launch.nodes.supervisor_starters import SupervisorHandle

ARRIVE_S = 120.0
"""Deadline for all supervisors: Ray starts a process on each node, and that an interpreter which imports torch."""

LATE_S = 5.0
"""Seconds that nodes which may come later are waited for once the others are there."""

_MOST_BYTES = 2**16  # of an introduction
_LOOK_S = 0.2


@dataclass(frozen=True)
class Arrival:
    """A supervisor that has connected: its node, its connection, and the data of its host."""

    node: str
    connection: socket.socket
    machine: str
    cpus: list[int]
    versions: dict[str, str]


class SupervisorListener:
    """Accepts each supervisor once, and closes other connections.

    Args:
        listener: The launcher's listening socket; the caller closes it.
        token: What each supervisor must send first.
        supervisors: The started supervisors, by node.

    Attributes:
        missing: The nodes whose supervisors have not connected yet.
    """

    def __init__(self, listener: socket.socket, token: str, supervisors: Mapping[str, SupervisorHandle]) -> None:
        self._supervisors, self.missing = supervisors, set(supervisors)
        self._listener = TokenListener(listener, token, _MOST_BYTES, len(supervisors))

    def poll(self, wait_s: float = 0.0) -> list[Arrival]:
        """Wait at most `wait_s` seconds for a connection. Returns the supervisors that have introduced themselves."""
        arrivals = []
        for client in self._listener.poll(wait_s):
            arrival = _arrival(client)
            if arrival is not None and arrival.node in self.missing:
                self.missing.remove(arrival.node)
                arrivals.append(arrival)
            else:
                client.connection.close()
        return arrivals

    def ended(self) -> dict[str, str]:
        """Why supervisors have ended before they connected, by node."""
        return {name: why for name in sorted(self.missing) if (why := self._supervisors[name].why_ended())}

    def give_up(self) -> dict[str, str]:
        """As `ended`, for those that may come later: they are not waited for any longer."""
        ended = self.ended()
        self.missing.difference_update(ended)
        return ended

    def await_all(self, starts_without: Callable[[Set[str]], bool] = lambda nodes: not nodes) -> Iterator[Arrival]:
        """Yield each supervisor, until all have connected.

        Args:
            starts_without: Whether some nodes may come later. They are waited for `LATE_S` more than the others.

        Raises:
            MissingNodeError: if a supervisor that is needed has ended, or some have not connected in time; the message
                names their nodes.
        """
        began_s, enough_s = time.monotonic(), math.inf
        while self.missing and time.monotonic() < enough_s + LATE_S:
            yield from self.poll(_LOOK_S)
            ended = self.ended()
            if ended and not starts_without(ended.keys()):
                name, why = min(ended.items(), key=lambda one: starts_without({one[0]}))  # first who is needed
                raise MissingNodeError(f"node {name} has not connected: {why}", [name])
            if starts_without(self.missing):
                enough_s = min(enough_s, time.monotonic())
            elif time.monotonic() > began_s + ARRIVE_S:
                nodes = ", ".join(sorted(self.missing))
                remedy = "do they reach this one, at any port (`gmi-drl doctor --cluster ray`)?"
                raise MissingNodeError(f"not connected within {ARRIVE_S:.0f} s: node {nodes}: {remedy}", self.missing)

    def close(self) -> None:
        """Accept nobody any more."""
        self._listener.close()


def introduction(token: str, node: str, machine: str, cpus: Sequence[int], versions: Mapping[str, str]) -> bytes:
    """The first bytes that a supervisor sends: the token, and the data of its host as in `Arrival`."""
    data = {"node": node, "machine": machine, "cpus": list(cpus), "versions": dict(versions)}
    return greeting(token, json.dumps(data).encode())


def _arrival(client: Client) -> Arrival | None:
    """The supervisor that a client introduces itself as; None if its introduction is malformed."""
    try:
        data = json.loads(client.payload)
        one = Arrival(data["node"], client.connection, data["machine"], data["cpus"], data["versions"])
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    kinds = ((one.node, str), (one.machine, str), (one.cpus, list), (one.versions, dict))
    return one if all(isinstance(value, kind) for value, kind in kinds) else None
