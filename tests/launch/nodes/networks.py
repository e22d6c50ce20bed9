"""Hosts on one machine: network namespaces with addresses of their own, joined by a bridge."""

import os
import shutil
import subprocess
import threading
from contextlib import ExitStack, contextmanager
from itertools import count

import pytest

from gmi_drl.benchmarks.cases.common import network_relay
from gmi_drl.launch.nodes.supervisor_starters import SubprocessSupervisors

COUNT = count()
GBIT_PER_S = 1.0
"""Of a slowed network."""


def ip(*words, **more):
    subprocess.run(["ip", *words], check=True, capture_output=True, timeout=120, **more)


def obstacle():
    """Why namespaces cannot be made here; None if they can."""
    if shutil.which("ip") is None or os.geteuid() != 0:
        return "needs root and iproute2 for network namespaces"
    try:
        ip("netns", "add", f"gmi-try-{os.getpid()}")
        ip("netns", "del", f"gmi-try-{os.getpid()}")
    except subprocess.CalledProcessError as error:
        return f"no network namespaces here: {error.stderr.decode().strip()}"
    return None


class Hosts(SubprocessSupervisors):
    """Starts the agent of each node in a namespace of its own; the launcher is outside of all."""

    def __init__(self, tag, nodes):
        self.prefix = f"10.{200 + os.getpid() % 50}.{os.getpid() // 50 % 250}"  # others may do the same just now
        self.spaces = {node: f"gmi-{tag}-{node}" for node in nodes}
        prefixes = {node: ["ip", "netns", "exec", space] for node, space in self.spaces.items()}
        self.addresses = {node: f"{self.prefix}.{number}" for number, node in enumerate(nodes, 2)}
        super().__init__(prefixes, f"{self.prefix}.1")

    def link(self, node, state):
        """Set the link of a node `up` or `down`."""
        ip("-n", self.spaces[node], "link", "set", "eth0", state)

    def cut(self, node, seconds):
        """Take its link away, for so long."""
        self.link(node, "down")
        threading.Timer(seconds, self.link, (node, "up")).start()

    @contextmanager
    def slowed(self, one_way_ms):
        """Delay all that nodes send each other, not the launcher; `self.pause` stops it for so many seconds."""
        ends = {space: self.addresses[node] for node, space in self.spaces.items()}
        with network_relay.relayed(ends, GBIT_PER_S, 2 * one_way_ms) as self.pause:
            yield

    def cutting(self, node, seconds, rows):
        """An `on_row` that keeps the rows, and cuts at the third."""

        def on_row(row):
            rows.append(row)
            if len(rows) == 3:
                self.cut(node, seconds)

        return on_row


def two_hosts():
    """Nodes a and b, see `some_hosts`."""
    return some_hosts("ab")


@contextmanager
def some_hosts(nodes):
    """Make a host for each letter, and take all down again."""
    tag = f"{os.getpid() % 100_000}.{next(COUNT)}"  # the kernel takes its time to forget a name
    bridge, hosts = f"gmi{tag}", Hosts(tag, nodes)
    with ExitStack() as life:
        ip("link", "add", bridge, "type", "bridge")
        life.callback(ip, "link", "del", bridge)
        ip("addr", "add", f"{hosts.address}/24", "dev", bridge)
        ip("link", "set", bridge, "up")
        for node, space in hosts.spaces.items():
            ip("netns", "add", space)
            life.callback(ip, "netns", "del", space)  # and with it its end of the pair
            outside = f"g{tag}{node}"
            ip("link", "add", outside, "type", "veth", "peer", "name", "eth0", "netns", space)
            ip("link", "set", outside, "master", bridge, "up")
            ip("-n", space, "addr", "add", f"{hosts.addresses[node]}/24", "dev", "eth0")
            ip("-n", space, "link", "set", "lo", "up")
            hosts.link(node, "up")
        yield hosts


needs_hosts = pytest.mark.skipif(obstacle() is not None, reason=str(obstacle()))
needs_relay = pytest.mark.skipif(network_relay.obstacle() is not None, reason=str(network_relay.obstacle()))
