"""Which policy workers answer which actors."""

from hypothesis import given
from hypothesis import strategies as st

from gmi_drl.layout.channels import Streams
from gmi_drl.layout.layout import GMI, Device, Layout
from gmi_drl.layout.servers import service_of, shared_evenly


def layout_of(*roles, streams=None):
    gmis = tuple(
        GMI(id=number, roles=some, num_env=int("simulator" in some), cores=(number,))
        for number, some in enumerate(roles)
    )
    return Layout(devices=(Device(kind="cpu", gmis=gmis),), streams=streams)


SIMULATES, ACTS, LEARNS, BOTH = ("simulator",), ("agent",), ("trainer",), ("simulator", "agent")


def test_policy_workers_answer_the_actors_without_an_agent():
    service = service_of(layout_of(SIMULATES, ACTS, BOTH, SIMULATES, ACTS, LEARNS, SIMULATES, streams=Streams()))
    assert service is not None
    assert service.servers == (1, 4) and service.clients == ((0, 3), (6,))
    assert [service.server_of(client) for client in (0, 3, 6)] == [1, 1, 4]


def test_agents_without_streams_serve_nobody():
    assert service_of(layout_of(SIMULATES, ACTS)) is None


@given(st.integers(1, 40), st.integers(1, 10))
def test_servers_share_clients_evenly(clients, servers):
    shares = shared_evenly(range(clients), range(100, 100 + servers))
    assert [client for share in shares for client in share] == list(range(clients))
    assert max(map(len, shares)) - min(map(len, shares)) <= 1
