"""Simulates a slow network between network namespaces by delaying packets. Root is needed.

Each namespace gets a TUN device. A process of the relay reads its packets and writes them to the device of their
destination. A packet leaves when the packets of its host before it have been sent at the network's bandwidth, and
arrives half a round trip later. Packets are large, so that Python keeps up. The kernel's `netem` does the same, but is
not available everywhere.
"""

import ctypes
import fcntl
import os
import queue
import shutil
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from itertools import count
from pathlib import Path

TUNSETIFF, IFF_TUN, IFF_NO_PI = 0x400454CA, 0x1, 0x1000
MTU = 65_000
TUN, DEVICE = "/dev/net/tun", "slow0"
ADDRESSES = ("10.199.0.1", "10.199.0.2")
"""Of the namespaces of a `wire`, which nothing outside of them sees."""

CLONE_NEWNET = 0x40000000
TO = slice(16, 20)
"""The bytes of the destination address in an IPv4 packet."""

_COUNT = count()  # the kernel takes its time to forget a name


def main() -> None:
    """Relay one host: `network_relay.py SOURCE GBIT_PER_S ROUND_TRIP_MS ADDRESS=SINK …`, of open devices."""
    source, gbit_per_s, round_trip_ms, *others = sys.argv[1:]
    sinks = {socket.inet_aton(address): int(sink) for address, sink in (other.split("=") for other in others)}
    waiting = queue.SimpleQueue[tuple[float, bytes]]()
    threading.Thread(target=_give, args=(sinks, waiting), daemon=True).start()
    _take(int(source), 8e-9 / float(gbit_per_s), float(round_trip_ms) / 2000, waiting)


def _take(source: int, s_per_byte: float, one_way_s: float, waiting: "queue.SimpleQueue[tuple[float, bytes]]") -> None:
    free_s = 0.0  # when the last packet will have been sent
    while packet := os.read(source, MTU + 64):
        free_s = max(free_s, time.monotonic()) + len(packet) * s_per_byte
        waiting.put((free_s + one_way_s, packet))


def _give(sinks: Mapping[bytes, int], waiting: "queue.SimpleQueue[tuple[float, bytes]]") -> None:
    while True:
        due_s, packet = waiting.get()
        time.sleep(max(0.0, due_s - time.monotonic()))
        if sink := sinks.get(packet[TO]):  # the kernel sends other packets, too
            os.write(sink, packet)


@contextmanager
def relayed(addresses: Mapping[str, str], gbit_per_s: float, round_trip_ms: float) -> Iterator[Callable[[float], None]]:
    """Send the traffic between namespaces through a relay during a `with` block.

    Args:
        addresses: The address of each namespace on an existing network between them, which is restored afterwards.
        gbit_per_s: The bandwidth of all that a host sends.
        round_trip_ms: In addition to the relay's own time.

    Returns:
        What makes the relay stand still for so many seconds, and does not wait. Nothing is lost meanwhile.
    """
    with ExitStack() as life:
        ends = dict[str, int]()
        for space, own in addresses.items():
            name = f"slow{os.getpid()}{len(ends)}"[:15]
            ends[own] = os.open(TUN, os.O_RDWR)
            life.callback(os.close, ends[own])
            fcntl.ioctl(ends[own], TUNSETIFF, struct.pack("16sH", name.encode(), IFF_TUN | IFF_NO_PI))
            ip("link", "set", name, "netns", space, "name", DEVICE)
            life.callback(ip, "-n", space, "link", "del", DEVICE)
            ip("-n", space, "link", "set", DEVICE, "up", "mtu", str(MTU), "txqueuelen", "10000")
            for other in set(addresses.values()) - {own}:
                ip("-n", space, "route", "add", f"{other}/32", "dev", DEVICE, "src", own)
        carriers = []
        for own, source in ends.items():
            others = [f"{address}={end}" for address, end in ends.items() if address != own]
            told = [str(source), str(gbit_per_s), str(round_trip_ms), *others]
            carrier = subprocess.Popen([sys.executable, __file__, *told], pass_fds=ends.values())
            carriers.append(carrier)
            life.callback(carrier.wait)
            life.callback(carrier.kill)

        def pause(seconds: float) -> None:
            _signal(carriers, signal.SIGSTOP)
            going_on = threading.Timer(seconds, _signal, (carriers, signal.SIGCONT))
            going_on.daemon = True
            going_on.start()

        yield pause


def _signal(carriers: Sequence["subprocess.Popen[bytes]"], number: int) -> None:
    for carrier in carriers:
        carrier.send_signal(number)


def obstacle() -> str | None:
    """Why this process cannot make a `wire`, with the remedy; None if it can."""
    can = os.geteuid() == 0 and shutil.which("ip") and os.access(TUN, os.W_OK)
    return None if can else f"it needs root, iproute2 and {TUN}, for network namespaces"


@contextmanager
def wire(gbit_per_s: float, round_trip_ms: float) -> Iterator[Callable[[], tuple[socket.socket, socket.socket]]]:
    """Make two namespaces, with the relay between them, for a `with` block.

    Returns:
        What makes both ends of a new TCP connection between them. Any process can use these.
    """
    with ExitStack() as life:
        spaces = [f"gmi-wire-{os.getpid()}-{next(_COUNT)}" for _ in ADDRESSES]
        for space, address in zip(spaces, ADDRESSES, strict=True):
            ip("netns", "add", space)
            life.callback(ip, "netns", "del", space)
            ip("-n", space, "addr", "add", f"{address}/32", "dev", "lo")
            ip("-n", space, "link", "set", "lo", "up")
        life.enter_context(relayed(dict(zip(spaces, ADDRESSES, strict=True)), gbit_per_s, round_trip_ms))

        def connect() -> tuple[socket.socket, socket.socket]:
            with _inside(spaces[0]):
                listening = socket.create_server((ADDRESSES[0], 0))
            with listening:
                with _inside(spaces[1]):
                    theirs = socket.create_connection(listening.getsockname(), timeout=20)
                ours, _ = listening.accept()
            return ours, theirs

        yield connect


@contextmanager
def _inside(space: str) -> Iterator[None]:
    """Let this thread make sockets in a namespace, where they stay."""
    with open("/proc/thread-self/ns/net") as home, open(Path("/run/netns", space)) as there:
        _enter(there.fileno())
        try:
            yield
        finally:
            _enter(home.fileno())


def _enter(space: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.setns(space, CLONE_NEWNET):
        raise OSError(ctypes.get_errno(), "setns")


def ip(*words: str) -> None:
    """Run a command of iproute2."""
    subprocess.run(["ip", *words], check=True, capture_output=True, timeout=20)


if __name__ == "__main__":
    main()
