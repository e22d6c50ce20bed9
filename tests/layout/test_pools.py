"""Who sends experience to whom."""

from itertools import chain, count

import pytest

from gmi_drl.layout.channels import Channels, Streams
from gmi_drl.layout.layout import GMI, HOLISTIC, Device, Layout
from gmi_drl.layout.pools import (
    Pool,
    far_agents,
    far_readers,
    goes_on_without,
    pool_of,
    pools_of,
    proxied,
    proxy_processes,
    receivers,
)

ACTS, TRAINS, SERVES, ASKS = ("simulator", "agent"), ("trainer",), ("agent",), ("simulator",)


def over(channels=True, **nodes):
    """A layout with GMIs of these roles on each node, whose ids go on from node to node."""
    ids = count()
    devices = []
    for node, roles in nodes.items():
        gmis = tuple(GMI(id=next(ids), roles=one, num_env=int("simulator" in one), cores=(0,)) for one in roles)
        devices.append(Device(node=None if node == "here" else node, kind="cpu", gmis=gmis))
    return Layout(share_cores=True, devices=tuple(devices), channels=Channels() if channels else None)


def test_on_one_machine_all_are_in_one_pool():
    layout = over(here=[ACTS, TRAINS, ACTS, TRAINS])
    assert pools_of(layout) == (Pool(None, (0, 2), (1, 3)),)
    assert far_agents(layout) == {}


def test_agents_send_to_the_trainers_of_their_own_node():
    layout = over(a=[ACTS, TRAINS], b=[ACTS, ACTS, TRAINS])
    assert pools_of(layout) == (Pool("a", (0,), (1,)), Pool("b", (2, 3), (4,)))
    assert far_agents(layout) == {}


def test_agents_without_trainers_beside_them_go_where_agents_are_fewest_for_each_trainer():
    layout = over(a=[ACTS, ACTS, ACTS], b=[TRAINS, TRAINS, ACTS], c=[TRAINS], d=[ACTS, ACTS])
    b, c = pools_of(layout)
    assert (b, c) == (Pool("b", (1, 2, 5, 8), (3, 4)), Pool("c", (0, 7), (6,)))
    assert far_agents(layout) == {0: c, 1: b, 2: b, 7: c, 8: b}


@pytest.mark.parametrize("agents", range(12))
def test_each_agent_is_in_one_pool_and_none_stays_without_while_there_are_enough(agents):
    layout = over(a=[TRAINS, TRAINS, TRAINS], b=[ACTS, *[ACTS] * agents], c=[TRAINS], d=[TRAINS, TRAINS])
    pools = pools_of(layout)
    assert sorted(chain(*(pool.agents for pool in pools))) == [gmi.id for gmi in layout.with_role("agent")]
    assert sum(bool(pool.agents) for pool in pools) == min(3, agents + 1)
    loads = [len(pool.agents) / len(pool.trainers) for pool in pools]
    assert max(loads) - min(loads) <= 1
    for gmi in layout.gmis:
        assert gmi.id in pool_of(layout, gmi.id).agents + pool_of(layout, gmi.id).trainers


def test_of_a_node_without_trainers_one_policy_worker_reads_from_the_first_pool():
    layout = over(a=[ACTS, SERVES], b=[TRAINS, SERVES, ASKS], c=[SERVES, SERVES, ASKS], d=[TRAINS, ASKS])
    layout = layout.model_copy(update={"streams": Streams()})
    b, d = pools_of(layout)
    assert (b.node, b.policy_workers) == ("b", (1, 3, 5)) and (d.node, d.policy_workers) == ("d", ())
    assert receivers(layout) == {"a": (1,), "c": (5, 6)} and far_readers(layout) == {1: b, 5: b}
    assert proxied(layout) == {0: pool_of(layout, 0), 1: b, 5: b, 7: pool_of(layout, 7)}


def test_each_pair_of_hosts_has_one_process_of_proxies():
    layout = over(a=[TRAINS, ACTS, SERVES], b=[ACTS, ACTS, SERVES], c=[ACTS])
    layout = layout.model_copy(update={"streams": Streams()})
    assert proxy_processes(layout) == {3: (3, 4, 5), 6: (6,)}


@pytest.mark.parametrize(
    ("lost", "goes_on"),
    [({0}, True), ({0, 1}, False), ({1, 5}, False), ({6}, True), ({5, 6}, False), ({4}, False)],
    ids=["one", "all-of-a-node", "of-a-policy-worker", "of-three", "too-many", "a-policy-worker"],
)
def test_a_run_goes_on_while_nobody_has_lost_all_of_its_actors(lost, goes_on):
    """Actors 0 and 1 send to node a. Of those that send to node b, 5 alone asks the policy worker 4."""
    layout = over(a=[ACTS, ACTS, TRAINS], b=[TRAINS, SERVES, ASKS, ACTS])
    streams = Streams(fewest_actors=3)
    assert goes_on_without(layout.model_copy(update={"streams": streams}), lost) is goes_on
    assert not goes_on_without(layout, lost)


def test_who_neither_sends_nor_is_sent_to_is_in_no_pool():
    assert pools_of(over(a=[ACTS])) == () and far_agents(over(a=[ACTS], b=[ACTS])) == {}
    assert far_agents(over(channels=False, a=[ACTS], b=[TRAINS])) == {}
    assert far_agents(over(a=[HOLISTIC], b=[HOLISTIC])) == {}
    with pytest.raises(KeyError, match="GMI 0 is in no pool"):
        pool_of(over(a=[("agent",)], b=[TRAINS]), 0)
