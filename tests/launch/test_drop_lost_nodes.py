"""Layouts that go on without nodes that were lost."""

import sys
from pathlib import Path

from gmi_drl.errors import GmiDiedError, MissingNodeError
from gmi_drl.hardware.cluster import Cluster, Network, Nodes
from gmi_drl.hardware.node import Cpu, Node
from gmi_drl.launch.drop_lost_nodes import what_is_left, without_node
from gmi_drl.launch.processes.gmi_handle import LOST
from gmi_drl.layout.channels import Channels, Streams
from gmi_drl.layout.cut import Cut
from gmi_drl.layout.layout import GMI, Device, GmiGroup, Layout
from gmi_drl.templates import DECOUPLED, TDG_EX
from gmi_drl.templates.over_nodes import OverNodes
from gmi_drl.workload import TASK_SPECS

sys.path.append(str(Path(__file__).parent / "nodes"))
from on_two import over


def test_environments_are_dealt_out_as_evenly_as_they_divide():
    layout = without_node(over("a", "b", "c", gmis=2, num_env=5), "a")
    assert [gmi.num_env for gmi in layout.gmis] == [8, 8, 7, 7] and layout.num_env == 30
    assert [gmi.id for gmi in layout.gmis] == [0, 1, 2, 3] and layout.nodes == ("b", "c")
    assert layout.groups["trainers"].members == (0, 1, 2, 3) and layout.groups["trainers"].reduction == "HAR"
    alone = without_node(over("a", "b", gmis=1), "b")
    assert alone.groups["trainers"].reduction == "none" and layout.reasons[-1] == "goes on without node a"


def test_worlds_of_several_agents_stay_whole():
    left = what_is_left(over("a", "b", "c", gmis=1, num_env=6), MissingNodeError("b is gone", ("b",)), agents=2)
    assert left is not None and [gmi.num_env for gmi in left.gmis] == [10, 8]


def test_where_roles_are_apart_simulators_take_over_the_environments():
    kind = Node(name="n", cpu=Cpu(cores=4, memory_gib=8))
    cluster = Cluster(nodes=(Nodes(count=2, node=kind),), network=Network(gbit_per_s=10.0, round_trip_ms=0.1))
    layout = OverNodes(TDG_EX, cluster).lay_out(TASK_SPECS["ant"], cluster.whole, Cut(4, 5))
    left = without_node(layout, layout.nodes[0])
    assert [gmi.num_env for gmi in left.gmis] == [10, 10, 0, 0] and TDG_EX.check(left) == []


def test_a_layout_by_mrr_that_loses_a_node_goes_on_by_a_method_forwhat_is_left():
    layout = over("a", "b", gmis=2)
    by_mrr = GmiGroup(members=layout.groups["trainers"].members, reduction="MRR")
    layout = layout.model_copy(update={"groups": {"trainers": by_mrr}})
    rest = without_node(layout, "a")
    assert rest.nodes == ("b",) and rest.num_env == layout.num_env
    assert {group.reduction for group in rest.groups.values()} == {"HAR"}


def test_workers_go_on_without_a_node_of_actors_with_their_streams():
    kinds = {"a": (("trainer",), ("agent",), ("simulator",)), "b": (("simulator",),)}
    ids = iter(range(4))
    devices = [
        Device(
            node=node,
            kind="cpu",
            gmis=tuple(GMI(id=next(ids), roles=one, num_env=4 * (one == ("simulator",)), cores=(0,)) for one in roles),
        )
        for node, roles in kinds.items()
    ]
    layout = Layout(
        task="ant",
        template="workers",
        share_cores=True,
        devices=tuple(devices),
        groups={"trainers": GmiGroup(members=(0,))},
        channels=Channels(),
        streams=Streams(wait_ms=2.0),
    )
    left = what_is_left(layout, MissingNodeError("b is gone", ("b",)))
    assert left is not None and left.streams == layout.streams and [gmi.num_env for gmi in left.gmis] == [0, 0, 4]
    assert what_is_left(layout, MissingNodeError("a is gone", ("a",))) is None


def test_agents_of_channels_keep_their_environments_and_nobody_replaces_the_last_trainer():
    def on(node, *gmis):
        return Device(node=node, kind="cpu", gmis=gmis)

    def acts(gmi_id):
        return GMI(id=gmi_id, roles=("simulator", "agent"), num_env=8, cores=(gmi_id,))

    layout = Layout(
        task="ant",
        template="decoupled",
        devices=(on("a", GMI(id=0, roles=("trainer",), cores=(0,)), acts(1)), on("b", acts(2), acts(3))),
        groups={"trainers": GmiGroup(members=(0,))},
        channels=Channels(max_lag=7),
    )
    rest = without_node(layout, "b")
    assert [gmi.num_env for gmi in rest.gmis] == [0, 8] and rest.channels == layout.channels
    assert DECOUPLED.check(rest) == []
    deaths = {gmi: GmiDiedError("lost", gmi, LOST) for gmi in (0, 3)}
    assert what_is_left(layout, deaths[3]) == rest and what_is_left(layout, deaths[0]) is None
    assert what_is_left(rest, deaths[0]) is None


def test_a_node_is_not_left_out_where_trainers_of_another_one_would_be_without_agents():
    def on(node, first, *roles):
        gmis = [
            GMI(id=first + i, roles=one, num_env=8 * (one != ("trainer",)), cores=(i,)) for i, one in enumerate(roles)
        ]
        return Device(node=node, kind="cpu", gmis=tuple(gmis))

    acts, trains = ("simulator", "agent"), ("trainer",)
    layout = Layout(
        task="ant",
        template="decoupled",
        devices=(on("a", 0, acts, trains), on("b", 2, trains), on("c", 3, acts)),
        groups={"trainers": GmiGroup(members=(1, 2), reduction="HAR")},
        channels=Channels(),
    )
    assert DECOUPLED.check(layout) == []
    a, b, c = (what_is_left(layout, GmiDiedError("lost", gmi, LOST)) for gmi in (0, 2, 3))
    assert a.nodes == ("b", "c") and b.nodes == ("a", "c") and c is None


def test_all_nodes_that_do_not_come_are_left_out():
    left = what_is_left(over("a", "b", "c"), MissingNodeError("not come", {"a", "c"}))
    assert left.nodes == ("b",) and left.num_env == over("a", "b", "c").num_env
    assert what_is_left(over("a", "b"), MissingNodeError("not come", {"a", "b"})) is None
