"""Agents as they come: each says first who it is."""

import hmac
import json
import socket
import struct
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from gmi_drl.errors import MachineError
from gmi_drl.launch.nodes.starters import StartedAgent

ARRIVE_S = 120.0
"""Until all agents must have come: Ray starts a process on each node, and that an interpreter which imports torch."""
HELLO_S = 3.0
"""For what a connection says of itself; a stranger may say nothing."""

_HEAD = struct.Struct("<II")
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
    """Each agent once, until all are there. Strangers are turned away.

    Raises:
        MachineError: naming an agent that has ended, or those that have not come in time.
    """
    missing, deadline = set(agents), time.monotonic() + ARRIVE_S
    listener.settimeout(_LOOK_S)
    while missing:
        with suppress(TimeoutError):
            connection, _ = listener.accept()
            arrival = _heard(connection, token)
            if arrival is not None and arrival.node in missing:
                missing.remove(arrival.node)
                yield arrival
            else:
                connection.close()
        for name in sorted(missing):
            if why := agents[name].why_gone():
                raise MachineError(f"node {name} has not come: {why}")
        if time.monotonic() > deadline:
            nodes = ", ".join(sorted(missing))
            remedy = "do they reach this one, at any port (`gmi-drl doctor --cluster ray`)?"
            raise MachineError(f"not come within {ARRIVE_S:.0f} s: node {nodes}: {remedy}")


def _heard(connection: socket.socket, token: str) -> Arrival | None:
    """Who it is; None for a stranger."""
    deadline = time.monotonic() + HELLO_S
    try:
        text_bytes, data_bytes = _HEAD.unpack(_exactly(connection, _HEAD.size, deadline))
        if text_bytes > 2**16 or data_bytes:
            return None
        hello: dict[str, Any] = json.loads(_exactly(connection, text_bytes, deadline))
        if not hmac.compare_digest(hello["token"], token):
            return None
        connection.settimeout(None)
        return Arrival(hello["node"], connection, hello["machine"], hello["cpus"], hello["versions"])
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None


def _exactly(connection: socket.socket, count: int, deadline: float) -> bytes:
    data = b""
    while len(data) < count:
        connection.settimeout(max(1e-3, deadline - time.monotonic()))
        part = connection.recv(count - len(data))
        if not part:
            raise OSError("it has gone")
        data += part
    return data
