"""The network between this node of a Ray cluster and others, measured: Ray tells nothing of it."""

import secrets
import socket
import time
from collections.abc import Sequence
from contextlib import closing
from statistics import median

from gmi_drl.comm.links.token_listener import TokenListener, greeting
from gmi_drl.hardware.cluster import Network
from gmi_drl.launch.ray.cluster import RayNode

ASKED = 4
"""Nodes at most: a cluster of a thousand is taken to be joined alike."""
ANSWERS = 50
BULK_S = 0.5
"""For which bytes are sent."""
ANSWER_S = 30.0
"""Until a node must have begun, and until it must be done."""
_PIECE = 2**20
_LOOK_S = 0.2


def measured_network(nodes: Sequence[RayNode]) -> Network | None:
    """What the slowest way to this node carries of those from some others, one after the other.

    Args:
        nodes: Of the cluster, of which this process is a part; this one among them.

    Returns:
        None where there is no other node, or one does not answer or cannot reach this one.
    """
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    known, token = [], secrets.token_hex(16)
    with (
        socket.create_server((ray.util.get_node_ip_address(), 0)) as here,
        closing(TokenListener(here, token, most_bytes=0, expected=1)) as door,
    ):
        for node in [node for node in nodes if not node.is_here][:ASKED]:
            place = NodeAffinitySchedulingStrategy(node.id, soft=False)
            asking = ray.remote(_ask).options(num_cpus=0, max_retries=0, scheduling_strategy=place)
            asked = asking.remote(*here.getsockname()[:2], token)
            try:
                _answer(door)
                known.append(ray.get(asked, timeout=ANSWER_S))
            except (OSError, ray.exceptions.RayError):
                return None
    if not known:
        return None
    bits_per_s, round_trip_s = min(bits for bits, _ in known), max(trip for _, trip in known)
    return Network(gbit_per_s=round(bits_per_s / 1e9, 3), round_trip_ms=round(1000 * round_trip_s, 3))


def _answer(door: TokenListener) -> None:
    """Give the next one its bytes back, then take what it sends, and say so.

    Raises:
        OSError: If none comes in time, or it does not go on.
    """
    with _next_guest(door) as line:
        line.settimeout(ANSWER_S)
        line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for _ in range(ANSWERS):
            line.sendall(line.recv(1))
        room = memoryview(bytearray(_PIECE))
        while line.recv_into(room):
            pass
        line.sendall(b"!")


def _next_guest(door: TokenListener) -> socket.socket:
    deadline = time.monotonic() + ANSWER_S
    while time.monotonic() < deadline:
        for guest in door.poll(_LOOK_S):
            return guest.connection
    raise TimeoutError(f"no node has come within {ANSWER_S:.0f} s")


def _ask(host: str, port: int, token: str) -> tuple[float, float]:
    """On another node: bits per second to the one that answers, and seconds that an answer takes in the median."""
    with socket.create_connection((host, port), ANSWER_S) as line:
        line.sendall(greeting(token, b""))
        line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        taken = []
        for _ in range(ANSWERS):
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
