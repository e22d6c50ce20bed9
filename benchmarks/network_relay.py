"""A slow network between two network namespaces: packets wait here for their time. Root is needed.

Each namespace gets a TUN device whose packets come to this process, which hands them to the other one. A packet leaves
when those before it have left at the network's bandwidth, and arrives half a round trip later. Packets are large, so
that Python keeps up. The kernel's own `netem`, which does the same, is not everywhere.
"""

import fcntl
import os
import queue
import struct
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

TUNSETIFF, IFF_TUN, IFF_NO_PI = 0x400454CA, 0x1, 0x1000
MTU = 65_000
DEVICE = "slow0"


class Relay:
    """Both directions of the network.

    Args:
        ends: TUN devices, open.
        gbit_per_s: Of each direction.
        round_trip_ms: Beside what this process takes.
    """

    def __init__(self, ends: tuple[int, int], gbit_per_s: float, round_trip_ms: float) -> None:
        self._s_per_byte, self._one_way_s = 8e-9 / gbit_per_s, round_trip_ms / 2000
        for source, sink in (ends, ends[::-1]):
            waiting = queue.SimpleQueue[tuple[float, bytes]]()
            threading.Thread(target=self._take, args=(source, waiting), daemon=True).start()
            threading.Thread(target=self._give, args=(sink, waiting), daemon=True).start()

    def _take(self, source: int, waiting: "queue.SimpleQueue[tuple[float, bytes]]") -> None:
        free_s = 0.0  # when the way is free
        while packet := _read(source):
            free_s = max(free_s, time.monotonic()) + len(packet) * self._s_per_byte
            waiting.put((free_s + self._one_way_s, packet))

    def _give(self, sink: int, waiting: "queue.SimpleQueue[tuple[float, bytes]]") -> None:
        while True:
            due_s, packet = waiting.get()
            time.sleep(max(0.0, due_s - time.monotonic()))
            try:
                os.write(sink, packet)
            except OSError:
                return  # the namespace has gone


def _read(source: int) -> bytes:
    try:
        return os.read(source, MTU + 64)
    except OSError:
        return b""


@contextmanager
def relayed(
    spaces: tuple[str, str], addresses: tuple[str, str], gbit_per_s: float, round_trip_ms: float
) -> Iterator[None]:
    """Let what two namespaces say to each other go through a relay, for the time of a `with` block.

    Args:
        spaces: Their names.
        addresses: Theirs, on a network that joins them already and is as it was afterwards.
        gbit_per_s: See `Relay`.
        round_trip_ms: See `Relay`.
    """
    with ExitStack() as life:
        ends = []
        for space, own, other in zip(spaces, addresses, addresses[::-1], strict=True):
            name = f"slow{os.getpid()}{len(ends)}"[:15]
            end = os.open("/dev/net/tun", os.O_RDWR)
            life.callback(os.close, end)
            fcntl.ioctl(end, TUNSETIFF, struct.pack("16sH", name.encode(), IFF_TUN | IFF_NO_PI))
            ip("link", "set", name, "netns", space, "name", DEVICE)
            life.callback(ip, "-n", space, "link", "del", DEVICE)
            ip("-n", space, "link", "set", DEVICE, "up", "mtu", str(MTU), "txqueuelen", "10000")
            ip("-n", space, "route", "add", f"{other}/32", "dev", DEVICE, "src", own)
            ends.append(end)
        Relay((ends[0], ends[1]), gbit_per_s, round_trip_ms)
        yield


def ip(*words: str) -> None:
    """Run a command of iproute2."""
    subprocess.run(["ip", *words], check=True, capture_output=True, timeout=20)
