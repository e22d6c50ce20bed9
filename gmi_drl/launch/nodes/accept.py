"""Agents as they come: each says first who it is."""

import json
import socket
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass

from gmi_drl.comm.links.token_listener import Client, TokenListener, greeting
from gmi_drl.errors import MissingNodeError
from gmi_drl.launch.nodes.starters import StartedAgent

ARRIVE_S = 120.0
"""Until all agents must have come: Ray starts a process on each node, and that an interpreter which imports torch."""

_MOST_BYTES = 2**16  # of what an agent says of its host
_LOOK_S = 0.2


@dataclass(frozen=True)
class Arrival:
    """An agent that has come: its node, its connection, and what it says of its host."""

    node: str
    connection: socket.socket
    machine: str
    cpus: list[int]
    versions: dict[str, str]


def arrivals(listener: socket.socket, token: str, agents: Mapping[str, StartedAgent]) -> Iterator[Arrival]:
    """Each agent once, until all are there. Strangers are turned away; nobody can connect after the last one.

    Raises:
        MissingNodeError: naming an agent that has ended, or those that have not come in time.
    """
    missing, deadline = set(agents), time.monotonic() + ARRIVE_S
    with closing(TokenListener(listener, token, _MOST_BYTES, len(agents))) as door:
        while missing:
            for guest in door.poll(_LOOK_S):
                arrival = _arrival(guest)
                if arrival is not None and arrival.node in missing:
                    missing.remove(arrival.node)
                    yield arrival
                else:
                    guest.connection.close()
            for name in sorted(missing):
                if why := agents[name].why_gone():
                    raise MissingNodeError(f"node {name} has not come: {why}", [name])
            if missing and time.monotonic() > deadline:
                nodes = ", ".join(sorted(missing))
                remedy = "do they reach this one, at any port (`gmi-drl doctor --cluster ray`)?"
                raise MissingNodeError(f"not come within {ARRIVE_S:.0f} s: node {nodes}: {remedy}", missing)


def introduction(token: str, node: str, machine: str, cpus: Sequence[int], versions: Mapping[str, str]) -> bytes:
    """What an agent says first, of its host; see `Arrival`."""
    told = {"node": node, "machine": machine, "cpus": list(cpus), "versions": dict(versions)}
    return greeting(token, json.dumps(told).encode())


def _arrival(guest: Client) -> Arrival | None:
    """Who it is; None if it does not say that."""
    try:
        told = json.loads(guest.payload)
        return Arrival(told["node"], guest.connection, told["machine"], told["cpus"], told["versions"])
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
