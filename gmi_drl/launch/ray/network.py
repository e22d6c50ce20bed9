"""Measures the network between this node of a Ray cluster and others, about which Ray has no data."""

import secrets
import socket
import time
from collections.abc import Sequence
from contextlib import closing
from statistics import median

from gmi_drl.comm.links.token_listener import TokenListener, greeting
from gmi_drl.hardware.cluster import Network
from gmi_drl.launch.ray.cluster import RayNode

MOST_NODES = 4
"""The most nodes that are measured: a large cluster is assumed to be uniform."""
ROUND_TRIPS = 50
BULK_S = 0.5
"""How long bytes are sent."""
ANSWER_S = 30.0
"""Deadline for a node to connect, and for the measurement."""
_PIECE = 2**20
_LOOK_S = 0.2


def measured_network(nodes: Sequence[RayNode]) -> Network | None:
    """The speed of the slowest connection from some other nodes to this one, measured in turn.

    Args:
        nodes: All nodes of the cluster, which this process has joined.

    Returns:
        The network; None if there is no other node, or one does not answer or cannot reach this one.
    """
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    known, token = [], secrets.token_hex(16)
    with (
        socket.create_server((ray.util.get_node_ip_address(), 0)) as here,
        closing(TokenListener(here, token, most_bytes=0, expected=1)) as listener,
    ):
        for node in [node for node in nodes if not node.is_here][:MOST_NODES]:
            place = NodeAffinitySchedulingStrategy(node.id, soft=False)
            task = ray.remote(_measure).options(num_cpus=0, max_retries=0, scheduling_strategy=place)
            result = task.remote(*here.getsockname()[:2], token)
            try:
                _serve(listener)
                known.append(ray.get(result, timeout=ANSWER_S))
            except (OSError, ray.exceptions.RayError):
                return None
    if not known:
        return None
    bits_per_s, round_trip_s = min(bits for bits, _ in known), max(trip for _, trip in known)
    return Network(gbit_per_s=round(bits_per_s / 1e9, 3), round_trip_ms=round(1000 * round_trip_s, 3))


def _serve(listener: TokenListener) -> None:
    """Echo bytes to the next node that connects, then receive what it sends and acknowledge that.

    Raises:
        OSError: if no node connects in time, or it stops.
    """
    with _next_connection(listener) as line:
        line.settimeout(ANSWER_S)
        line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for _ in range(ROUND_TRIPS):
            line.sendall(line.recv(1))
        room = memoryview(bytearray(_PIECE))
        while line.recv_into(room):
            pass
        line.sendall(b"!")


def _next_connection(listener: TokenListener) -> socket.socket:
    deadline = time.monotonic() + ANSWER_S
    while time.monotonic() < deadline:
        for client in listener.poll(_LOOK_S):
            return client.connection
    raise TimeoutError(f"no node has connected within {ANSWER_S:.0f} s")


def _measure(host: str, port: int, token: str) -> tuple[float, float]:
    """On another node: measure the bits per second to this one, and the median round trip in seconds."""
    with socket.create_connection((host, port), ANSWER_S) as line:
        line.sendall(greeting(token, b""))
        line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        taken = []
        for _ in range(ROUND_TRIPS):
            began_s = time.perf_counter()
            line.sendall(b"?")
            line.recv(1)
            taken.append(time.perf_counter() - began_s)
        piece, sent, began_s = bytes(_PIECE), 0, time.perf_counter()
        while time.perf_counter() - began_s < BULK_S:
            line.sendall(piece)
            sent += _PIECE
        line.shutdown(socket.SHUT_WR)
        line.recv(1)
        return 8 * sent / (time.perf_counter() - began_s), median(taken)
