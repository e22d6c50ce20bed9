"""Accepts the connections of supervisors, which first send their node and host."""

import json
import socket
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass

from gmi_drl.comm.links.token_listener import Client, TokenListener, greeting
from gmi_drl.errors import MissingNodeError
from gmi_drl.launch.nodes.supervisor_starters import SupervisorHandle

ARRIVE_S = 120.0
"""Deadline for all supervisors: Ray starts a process on each node, and that an interpreter which imports torch."""

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


def accept_supervisors(
    listener: socket.socket, token: str, supervisors: Mapping[str, SupervisorHandle]
) -> Iterator[Arrival]:
    """Yield each supervisor once, until all have connected. Closes other connections, and the listener at the end.

    Args:
        listener: The launcher's listening socket.
        token: What each supervisor must send first.
        supervisors: The started supervisors, by node.

    Raises:
        MissingNodeError: if a supervisor has ended, or some have not connected in time; the message names their nodes.
    """
    missing, deadline = set(supervisors), time.monotonic() + ARRIVE_S
    with closing(TokenListener(listener, token, _MOST_BYTES, len(supervisors))) as token_listener:
        while missing:
            for client in token_listener.poll(_LOOK_S):
                arrival = _arrival(client)
                if arrival is not None and arrival.node in missing:
                    missing.remove(arrival.node)
                    yield arrival
                else:
                    client.connection.close()
            for name in sorted(missing):
                if why := supervisors[name].why_ended():
                    raise MissingNodeError(f"node {name} has not connected: {why}", [name])
            if missing and time.monotonic() > deadline:
                nodes = ", ".join(sorted(missing))
                remedy = "do they reach this one, at any port (`gmi-drl doctor --cluster ray`)?"
                raise MissingNodeError(f"not connected within {ARRIVE_S:.0f} s: node {nodes}: {remedy}", missing)


def introduction(token: str, node: str, machine: str, cpus: Sequence[int], versions: Mapping[str, str]) -> bytes:
    """The first bytes that a supervisor sends: the token, and the data of its host as in `Arrival`."""
    data = {"node": node, "machine": machine, "cpus": list(cpus), "versions": dict(versions)}
    return greeting(token, json.dumps(data).encode())


def _arrival(client: Client) -> Arrival | None:
    """The supervisor that a client introduces itself as; None if its introduction is malformed."""
    try:
        data = json.loads(client.payload)
        return Arrival(data["node"], client.connection, data["machine"], data["cpus"], data["versions"])
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
