"""Which policy workers answer which actors."""

from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gmi_drl.layout.channels import Streams
from gmi_drl.layout.layout import GMI, Device, Layout
from gmi_drl.layout.servers import far_clients, service_of, services_of, shared_evenly


def layout_of(*roles, streams=None):
    gmis = tuple(
        GMI(id=number, roles=some, num_env=int("simulator" in some), cores=(number,))
        for number, some in enumerate(roles)
    )
    return Layout(devices=(Device(kind="cpu", gmis=gmis),), streams=streams)


SIMULATES, ACTS, LEARNS, BOTH = ("simulator",), ("agent",), ("trainer",), ("simulator", "agent")


def test_policy_workers_answer_the_actors_without_an_agent():
    layout = layout_of(SIMULATES, ACTS, BOTH, SIMULATES, ACTS, LEARNS, SIMULATES, streams=Streams())
    (service,) = services_of(layout)
    assert far_clients(layout) == {} and service_of(layout, 4) == service
    with pytest.raises(KeyError, match="GMI 2 is in no inference stream"):
        service_of(layout, 2)
    assert service.servers == (1, 4) and service.clients == ((0, 3), (6,))
    assert [service.server_of(client) for client in (0, 3, 6)] == [1, 1, 4]


def test_actors_ask_policy_workers_of_their_node_or_those_with_the_fewest_actors():
    nodes = {"a": [SIMULATES, SIMULATES], "b": [ACTS, SIMULATES, SIMULATES], "c": [ACTS, ACTS, SIMULATES, SIMULATES]}
    ids = count()
    devices = []
    for node, roles in nodes.items():
        gmis = tuple(GMI(id=next(ids), roles=some, num_env=int("simulator" in some), cores=(0,)) for some in roles)
        devices.append(Device(node=node, kind="cpu", gmis=gmis))
    layout = Layout(devices=tuple(devices), streams=Streams(), share_cores=True)
    b, c = services_of(layout)
    assert (b.node, b.servers, b.clients) == ("b", (2,), ((3, 4),))
    assert (c.node, c.servers, c.clients) == ("c", (5, 6), ((0, 7), (1, 8)))
    assert far_clients(layout) == {0: c, 1: c} and service_of(layout, 1) == c and c.clients_of(6) == (1, 8)


def test_agents_without_streams_serve_nobody():
    assert services_of(layout_of(SIMULATES, ACTS)) == ()


@given(st.integers(1, 40), st.integers(1, 10))
def test_servers_share_clients_evenly(clients, servers):
    shares = shared_evenly(range(clients), range(100, 100 + servers))
    assert [client for share in shares for client in share] == list(range(clients))
    assert max(map(len, shares)) - min(map(len, shares)) <= 1
