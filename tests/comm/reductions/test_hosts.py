"""Reductions between hosts: ranks in two network namespaces with a cable between them, whose kernel counts bytes, too.

Within a namespace ranks share memory as those of a host do; nothing but the cable joins the two.
"""

import ctypes
import os
import secrets
import subprocess
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager

import pytest
import torch

from gmi_drl.comm import open_group, open_reduction
from gmi_drl.comm.links.handshake import RankAddresses, listen
from gmi_drl.comm.membership import Membership
from gmi_drl.comm.memory.segment import create_segment
from gmi_drl.comm.rendezvous import Rendezvous
from gmi_drl.layout.reductions import REDUCTIONS
from tests.comm.ranks import FORK, legal

CLONE_NEWNET = 0x40000000
MAPPING = [[0, 1], [2, 3]]
HOST_OF = {0: 0, 1: 0, 2: 1, 3: 1}
ADDRESSES = ("10.255.254.1", "10.255.254.2")
NUMEL = 1_000_000
ACROSS = [name for name in legal(MAPPING) if REDUCTIONS.find(name).rendezvous_by == "links"]


def run(line):
    return subprocess.run(line.split(), capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def hosts():
    """Names of two namespaces that are joined by a pair of virtual interfaces."""
    names = [f"gmi-drl-{os.getpid()}-{number}" for number in range(2)]
    cable = [f"veth{os.getpid() % 100_000}{end}" for end in "ab"]
    if os.geteuid() != 0 or run("ip netns").returncode != 0:
        pytest.skip("network namespaces need root and iproute2")
    with ExitStack() as stack:
        for name in names:
            if (made := run(f"ip netns add {name}")).returncode != 0:
                pytest.skip(f"no network namespaces here: {made.stderr.strip()}")
            stack.callback(run, f"ip netns delete {name}")
        if (made := run(f"ip link add {cable[0]} type veth peer name {cable[1]}")).returncode != 0:
            pytest.skip(f"no virtual interfaces here: {made.stderr.strip()}")
        for name, end, address in zip(names, cable, ADDRESSES, strict=True):
            for line in (
                f"ip link set {end} netns {name}",
                f"ip -n {name} addr add {address}/24 dev {end}",
                f"ip -n {name} link set {end} up",
                f"ip -n {name} link set lo up",
            ):
                assert run(line).returncode == 0, line
        yield [(name, end) for name, end in zip(names, cable, strict=True)]


def enter(host):
    """Put this thread into a namespace."""
    with open(f"/var/run/netns/{host}") as place:
        assert ctypes.CDLL(None, use_errno=True).setns(place.fileno(), CLONE_NEWNET) == 0


def listener_in(host, address):
    """Sockets stay in the namespace in which they were made; a thread of its own goes there."""

    def make():
        enter(host)
        return listen(address)

    with ThreadPoolExecutor(1) as pool:
        return pool.submit(make).result()


def sent_by(host, interface):
    """Bytes with all headers that the kernel has sent over an interface."""
    listed = run(f"ip netns exec {host} cat /proc/net/dev").stdout
    (line,) = [line for line in listed.splitlines() if line.strip().startswith(f"{interface}:")]
    return int(line.split(":")[1].split()[8])


@contextmanager
def points(hosts):
    """As launchers on both hosts make them."""
    listeners = [listener_in(hosts[HOST_OF[rank]][0], ADDRESSES[HOST_OF[rank]]) for rank in HOST_OF]
    segments = [create_segment(len(ranks), 4 * NUMEL) for ranks in MAPPING]
    addresses = RankAddresses(
        tuple(listener.getsockname() for listener in listeners), secrets.token_hex(16)
    ).to_descriptor()
    yield [
        Rendezvous(segment=segments[HOST_OF[rank]], listener=listeners[rank].fileno(), addresses=addresses)
        for rank in HOST_OF
    ]
    for listener in listeners:
        listener.close()
    for descriptor in (*segments, addresses):
        os.close(descriptor)


def reduced_between(hosts, name):
    """What each rank has in its bucket, and what it has counted that it sent to ranks of the other host."""
    pipes = [FORK.Pipe(duplex=False) for _ in HOST_OF]

    def live(rank, rendezvous):
        torch.set_num_threads(1)
        enter(hosts[HOST_OF[rank]][0])
        method, member = REDUCTIONS.find(name), Membership(rank, MAPPING, hang_s=60, spins=False)
        reduction = open_reduction(method, open_group(method, member, rendezvous))
        bucket = reduction.bucket(NUMEL).fill_(rank + 1.0)
        reduction.reduce(bucket)
        reduction.group.barrier()
        across = sum(count for (_, to), count in reduction.group.link.sent.items() if HOST_OF[to] != HOST_OF[rank])
        pipes[rank][1].send((bucket.unique().tolist(), across))
        reduction.group.close()
        os._exit(0)

    with points(hosts) as made:
        processes = [FORK.Process(target=live, args=(rank, rendezvous)) for rank, rendezvous in enumerate(made)]
        for process in processes:
            process.start()
        try:
            assert all(reader.poll(120) for reader, _ in pipes)
            return [reader.recv() for reader, _ in pipes]
        finally:
            for process in processes:
                process.kill()
                process.join()


@pytest.mark.parametrize("name", ACROSS)
def test_what_is_counted_is_what_goes_over_the_cable(hosts, name):
    before = [sent_by(*host) for host in hosts]
    sums, across = zip(*reduced_between(hosts, name), strict=True)
    over_the_cable = [sent_by(*host) - count for host, count in zip(hosts, before, strict=True)]
    assert sums == ([10.0],) * 4
    for host, count in enumerate(over_the_cable):
        counted = sum(across[rank] for rank in HOST_OF if HOST_OF[rank] == host)
        assert counted > 0 and counted < count < 1.1 * counted + 200_000, "headers, and what ranks say to each other"
