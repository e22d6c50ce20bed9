"""Agents and trainers on GMIs of their own."""

from itertools import count

import pytest

from gmi_drl.config.learners import LEARNERS, OUR_PPO
from gmi_drl.errors import NoFeasiblePlanError, UsageError
from gmi_drl.hardware.cluster import Cluster, Network, Nodes
from gmi_drl.hardware.node import Cpu, CpuDevices, Gpus, Node
from gmi_drl.layout.channels import Channels
from gmi_drl.layout.cut import Cut
from gmi_drl.layout.layout import GMI, HOLISTIC, Device, GmiGroup, Layout
from gmi_drl.layout.pools import Pool, pools_of
from gmi_drl.templates import DECOUPLED, TCG_EX, Decoupled
from gmi_drl.templates.over_nodes import OverNodes
from gmi_drl.templates.tcg import SERVING
from gmi_drl.workload import TASK_SPECS

ANT = TASK_SPECS["ant"]
NODE = Node(name="n", cpus=CpuDevices(cores_each=4, count=2), cpu=Cpu(cores=8, memory_gib=8))


def roles(layout):
    return ["trainer" if gmi.roles == ("trainer",) else "agent" for gmi in layout.gmis]


@pytest.mark.parametrize("trainers", [1, 2, 3])
def test_the_last_gmis_train_and_have_no_worlds(trainers):
    layout = Decoupled(trainers).lay_out(ANT, NODE, Cut(2, 64))
    assert roles(layout) == ["agent"] * (4 - trainers) + ["trainer"] * trainers
    assert [gmi.num_env for gmi in layout.gmis] == [64] * (4 - trainers) + [0] * trainers
    assert layout.groups["trainers"].members == tuple(range(4 - trainers, 4))
    assert layout.groups["trainers"].reduction == ("none" if trainers == 1 else "MPR-shm")
    assert layout.channels == Channels() and Decoupled(trainers).check(layout) == []
    assert f"{4 - trainers} agent" in layout.reasons[0] and f" and {trainers} trainer" in layout.reasons[0]
    assert layout.groups == Decoupled(trainers).groups([[0, 1], [2, 3]], NODE)
    assert DECOUPLED.leaders(layout) == (4 - trainers,) and DECOUPLED.reporters(layout) == tuple(range(4 - trainers, 4))


def test_somebody_must_be_left_to_act():
    with pytest.raises(NoFeasiblePlanError, match="needs 5 GMIs at least, of which one acts, not 4 GMIs"):
        Decoupled(4).lay_out(ANT, NODE, Cut(2, 64))
    with pytest.raises(
        NoFeasiblePlanError, match=r"plan --template decoupled --budget 0 --share-cores --gmis-per-gpu 2$"
    ):
        DECOUPLED.lay_out(ANT, Node(name="one", cpu=Cpu(cores=1, memory_gib=8)), Cut(1, 64))


@pytest.mark.parametrize(("gpus", "trainers", "usual"), [(1, 1, 2), (1, 2, 3), (2, 1, 1), (2, 2, 2), (8, 1, 1)])
def test_gpus_are_usually_cut_into_as_few_gmis_as_work(gpus, trainers, usual):
    node = Node(name="n", gpus=Gpus(model="A100", count=gpus), cpu=Cpu(cores=32, memory_gib=64))
    template = Decoupled(trainers)
    assert template.usual_gmis_per_gpu(node) == usual
    assert len(template.lay_out(ANT, node, Cut(usual, 64)).gmis) == usual * gpus


def test_each_node_with_gpus_is_usually_cut_into_what_it_needs():
    one = Node(name="one", gpus=Gpus(model="A100", count=1), cpu=Cpu(cores=8, memory_gib=64))
    cluster = Cluster(network=Network(gbit_per_s=10, round_trip_ms=0.1), nodes=(Nodes(count=2, node=one),))
    template = OverNodes(DECOUPLED, cluster)
    assert template.usual_gmis_per_gpu(cluster.whole) == 2
    assert len(template.lay_out(ANT, cluster.whole, Cut(2, 64)).gmis) == 4


def test_every_mistake_of_a_layout_is_told():
    layout = DECOUPLED.lay_out(ANT, NODE, Cut(2, 64))
    device = layout.devices[0]
    uneven = (device.gmis[0].model_copy(update={"num_env": 32}), device.gmis[1].model_copy(update={"roles": HOLISTIC}))
    wrong = layout.model_copy(
        update={
            "task": None,
            "channels": None,
            "groups": {},
            "devices": (device.model_copy(update={"gmis": uneven}), layout.devices[1]),
        }
    )
    mistakes = "; ".join(DECOUPLED.check(wrong))
    for part in ("names none", "see GMIs [1]", "0: 32", "channels: {}"):
        assert part in mistakes
    assert "needs the one group" in "; ".join(DECOUPLED.check(layout.model_copy(update={"groups": {}})))
    assert DECOUPLED.check(TCG_EX.lay_out(ANT, NODE, Cut(2, 64)))


def test_agents_on_cores_are_succeeded_on_any_machine_and_nobody_else():
    layout = Decoupled(2).lay_out(ANT, NODE, Cut(2, 64))
    on_gpu = layout.model_copy(
        update={"devices": tuple(device.model_copy(update={"kind": "gpu"}) for device in layout.devices)}
    )
    cluster = Cluster(network=Network(gbit_per_s=10, round_trip_ms=0.1), nodes=(Nodes(count=2, node=NODE),))
    over = OverNodes(DECOUPLED, cluster)
    far = over.lay_out(ANT, over.cluster.whole, Cut(2, 64))
    assert DECOUPLED.restartable(layout) == {0, 1} and not TCG_EX.restartable(layout)
    assert not DECOUPLED.restartable(on_gpu) and len(far.nodes) == 2
    assert over.restartable(far) == {gmi.id for gmi in far.with_role("agent")} != set()


def test_a_learner_that_acts_where_it_learns_is_refused():
    layout = DECOUPLED.lay_out(ANT, NODE, Cut(2, 64))
    with pytest.raises(UsageError, match="take --algo a3c, ppo, dqn or sac"):
        DECOUPLED.roles(layout, LEARNERS.find("sequence"))


@pytest.mark.parametrize("kind", ["dqn", "sac"])
def test_learners_from_replay_have_agents_that_explore(kind):
    layout = DECOUPLED.lay_out(ANT, NODE, Cut(2, 64))
    names = {name.rpartition(":")[2] for name in DECOUPLED.roles(layout, LEARNERS.find(kind)).values()}
    assert names == {"ReplayExperienceAgent", "ReplayTrainer"}


def test_only_trainers_exchange_gradients():
    sums = DECOUPLED.communication(ANT, OUR_PPO.model.for_task(ANT), NODE)
    mapping = [[0, 1], [2, 3]]
    assert sums.seconds(DECOUPLED.trainers_of(mapping)) == 0 < sums.seconds(Decoupled(2).trainers_of(mapping))
    assert sums.method(DECOUPLED.trainers_of(mapping)).name == "none"


def test_over_nodes_the_last_gmis_of_each_train_and_all_of_them_sum():
    cluster = Cluster(network=Network(gbit_per_s=10, round_trip_ms=0.1), nodes=(Nodes(count=2, node=NODE),))
    over_nodes = OverNodes(DECOUPLED, cluster)
    sums = over_nodes.communication(ANT, OUR_PPO.model.for_task(ANT), cluster.whole)
    for communication in (None, sums):
        layout = over_nodes.lay_out(ANT, cluster.whole, Cut(2, 64), communication=communication)
        assert roles(layout) == ["agent", "agent", "agent", "trainer"] * 2 and DECOUPLED.check(layout) == []
        group = layout.groups["trainers"]
        assert group.members == (3, 7) and group.reduction in ("HAR", "SHARD")
        assert pools_of(layout) == (Pool("n-0", (0, 1, 2), (3,)), Pool("n-1", (4, 5, 6), (7,)))
        assert "3 agents and 1 trainer" in " ".join(layout.reasons)
    assert sums.seconds(over_nodes.trainers_of([[0, 1], [2, 3], [4, 5], [6, 7]])) > 0


def test_a_cluster_of_one_node_sums_nothing():
    cluster = Cluster(network=Network(gbit_per_s=10, round_trip_ms=0.1), nodes=(Nodes(count=1, node=NODE),))
    layout = OverNodes(DECOUPLED, cluster).lay_out(ANT, cluster.whole, Cut(2, 64))
    assert layout.groups["trainers"] == GmiGroup(members=(3,), reduction="none")


TRAINER = ("trainer",)


def over(**nodes):
    """A layout with GMIs of these roles on each node."""
    ids, devices = count(), []
    for node, parts in nodes.items():
        gmis = [GMI(id=next(ids), roles=one, num_env=8 if one == SERVING else 0, cores=(0,)) for one in parts]
        devices.append(Device(node=node, kind="cpu", gmis=tuple(gmis)))
    trainers = tuple(gmi.id for device in devices for gmi in device.gmis if gmi.roles == TRAINER)
    groups = {"trainers": GmiGroup(members=trainers, reduction="HAR")}
    return Layout(task="ant", share_cores=True, devices=tuple(devices), groups=groups, channels=Channels())


def test_agents_and_trainers_may_be_on_any_node_but_no_trainer_without_agents():
    for layout in (
        over(a=[SERVING], b=[TRAINER]),
        over(a=[SERVING, TRAINER], b=[SERVING, TRAINER], c=[SERVING]),
        over(a=[SERVING, SERVING], b=[TRAINER], c=[TRAINER, TRAINER]),
    ):
        assert DECOUPLED.check(layout) == []
    (mistake,) = DECOUPLED.check(over(a=[SERVING, TRAINER], b=[TRAINER], c=[TRAINER], d=[SERVING]))
    assert "needs an agent for the trainers of each node, c: put agents there, or more on nodes without" in mistake
