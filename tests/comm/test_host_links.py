import os
import struct
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest
from conftest import open_descriptors

from gmi_drl.comm.host_links import (
    AGENT,
    PROXY,
    SERVER,
    HostLinks,
    are_on_one_node,
    can_receive_from,
    can_send_to,
    connect,
    links_of,
    proxy_group_name,
    proxy_membership,
    stream_link_name,
)
from gmi_drl.comm.links.framing import FIRST_OTHER_KIND, FrameError
from gmi_drl.comm.links.handshake import RankAddresses, listen
from gmi_drl.comm.rendezvous import Rendezvous
from gmi_drl.errors import MachineError
from gmi_drl.layout.channels import Channels, Streams
from gmi_drl.layout.layout import GMI, Device, Layout

ACTS, TRAINS = ("simulator", "agent"), ("trainer",)


def over(channels=True, **nodes):
    """A layout with GMIs of these roles on each node."""
    ids = iter(range(10))
    devices = [
        Device(
            node=node,
            kind="cpu",
            gmis=tuple(GMI(id=next(ids), roles=one, num_env=int("simulator" in one), cores=(0,)) for one in roles),
        )
        for node, roles in nodes.items()
    ]
    return Layout(share_cores=True, devices=tuple(devices), channels=Channels() if channels else None)


LAYOUT = over(a=[ACTS], b=[ACTS, TRAINS], c=[ACTS, ACTS])
TWO_POOLS = over(a=[ACTS, TRAINS], b=[ACTS, TRAINS], c=[ACTS, ACTS])


def test_messages_go_within_a_host_and_come_from_who_stands_in_there():
    trainer = 2
    assert [can_receive_from(LAYOUT, trainer, gmi) for gmi in range(5)] == [True] * 5
    assert [are_on_one_node(LAYOUT, trainer, gmi) for gmi in range(5)] == [False, True, True, False, False]
    for reaches in (can_receive_from, are_on_one_node):
        assert [reaches(LAYOUT, 3, gmi) for gmi in range(5)] == [False, False, False, True, True]
    assert [can_receive_from(TWO_POOLS, trainer, 4) for trainer in (1, 3)] == [True, False]
    assert [can_receive_from(TWO_POOLS, trainer, 5) for trainer in (1, 3)] == [False, True]


def test_agent_and_proxy_get_the_addresses_of_each_other():
    before = open_descriptors()
    hosts = {node: HostLinks(LAYOUT, node, "127.0.0.1") for node in "abc"}
    assert {node: one.proxied for node, one in hosts.items()} == {"a": (), "b": (0, 3, 4), "c": ()}
    addresses = {node: one.addresses for node, one in hosts.items()}
    assert addresses["a"].keys() == {proxy_group_name(0)}
    assert addresses["c"].keys() == {proxy_group_name(3), proxy_group_name(4)}
    meetings = {}
    for name, of_home in addresses["b"].items():
        (other,) = [addresses[node][name] for node in "ac" if name in addresses[node]]
        meetings[name] = RankAddresses((other[AGENT], of_home[PROXY]), "t" * 32)
    for one in hosts.values():
        one.set_addresses(meetings)
    for gmi, node in ((0, "a"), (3, "c")):
        for end in (hosts[node], hosts["b"]):
            (rendezvous,) = end.rendezvous_of(gmi).values()
            ranks = RankAddresses.from_descriptor(rendezvous.addresses)
            assert ranks == meetings[proxy_group_name(gmi)] and os.fstat(rendezvous.listener)
    assert hosts["a"].rendezvous_of(3) == hosts["b"].rendezvous_of(1) == hosts["c"].rendezvous_of(0) == {}
    for one in hosts.values():
        one.close()
    assert open_descriptors() == before


def test_each_proxy_is_on_the_host_of_its_agents_trainers():
    hosts = {node: HostLinks(TWO_POOLS, node, "127.0.0.1") for node in "abc"}
    assert {node: one.proxied for node, one in hosts.items()} == {"a": (4,), "b": (5,), "c": ()}
    told = {node: [(name, *ranks) for name, ranks in one.addresses.items()] for node, one in hosts.items()}
    assert told["a"] == [(proxy_group_name(4), PROXY)] and told["b"] == [(proxy_group_name(5), PROXY)]
    assert told["c"] == [(proxy_group_name(4), AGENT), (proxy_group_name(5), AGENT)]
    for one in hosts.values():
        one.close()


def test_actors_connect_to_policy_workers_and_these_to_the_proxy_that_sends_them_parameters():
    layout = over(a=[("simulator",)], b=[("agent",)], c=[TRAINS]).model_copy(update={"streams": Streams()})
    links = {link.name: link.ends for link in links_of(layout)}
    assert links == {
        proxy_group_name(0): ((0, "c"), (0, "a")),
        proxy_group_name(1): ((1, "c"), (1, "b")),
        stream_link_name(0): ((1, "b"), (0, "a")),
    }
    assert [can_send_to(layout, 2, other) for other in range(3)] == [False, True, True]
    hosts = {node: HostLinks(layout, node, "127.0.0.1") for node in "abc"}
    assert hosts["c"].proxied == (0, 1)
    assert set(hosts["a"].rendezvous_of(0)) == {proxy_group_name(0), stream_link_name(0)}
    assert set(hosts["b"].rendezvous_of(1)) == {proxy_group_name(1), stream_link_name(0)}
    assert hosts["b"].addresses[stream_link_name(0)].keys() == {SERVER}
    for one in hosts.values():
        one.close()


def test_nothing_is_left_where_descriptors_are_too_few(monkeypatch):
    before = open_descriptors()
    monkeypatch.setattr(
        "gmi_drl.comm.host_links.listen", lambda *_: (_ for _ in ()).throw(OSError(24, "Too many open"))
    )
    with pytest.raises(MachineError, match=r"cannot be made: Too many open \(ulimit -n\): use fewer agents"):
        HostLinks(LAYOUT, "b", "127.0.0.1")
    with closing(HostLinks(over(a=[ACTS, TRAINS]), "a", "127.0.0.1")) as none:
        assert none.addresses == {}
    assert open_descriptors() == before


def test_each_of_several_policies_has_connections_of_its_own():
    gmis = [
        GMI(id=0, roles=("trainer",), num_env=0, cores=(0,), policy="x"),
        GMI(id=1, roles=("trainer",), num_env=0, cores=(0,), policy="y"),
        GMI(id=2, roles=("agent",), num_env=0, cores=(0,), policy="y"),
    ]
    far = GMI(id=3, roles=("simulator",), num_env=1, cores=(0,))
    devices = Device(node="a", kind="cpu", gmis=tuple(gmis)), Device(node="b", kind="cpu", gmis=(far,))
    layout = Layout(share_cores=True, devices=devices, channels=Channels(), streams=Streams())
    assert [(link.name, link.ends) for link in links_of(layout)] == [
        ("channels of GMI 3 for x", ((3, "a"), (3, "b"))),
        ("channels of GMI 3 for y", ((3, "a"), (3, "b"))),
        ("stream of GMI 3 for y", ((2, "a"), (3, "b"))),
    ]


def test_an_end_of_a_link_makes_no_room_for_a_message_that_is_too_long():
    listeners = [listen(), listen()]
    addresses = RankAddresses(tuple(one.getsockname() for one in listeners), "a" * 32).to_descriptor()

    def end(rank):
        return connect(
            proxy_membership(3, rank, "b", 60.0), Rendezvous(None, None, listeners[rank].fileno(), addresses)
        )

    with ThreadPoolExecutor() as pool:
        proxy, agent = pool.map(end, (PROXY, AGENT))
    agent._socket.sendall(struct.pack("<QQ", FIRST_OTHER_KIND, 2**40))
    with pytest.raises(FrameError, match="are the most"):
        while proxy.is_open:
            list(proxy.read())
    for one in (proxy, agent, *listeners):
        one.close()
    os.close(addresses)
