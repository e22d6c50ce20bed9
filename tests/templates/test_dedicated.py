"""TDG and TDG_EX: who works for whom, what keeps a layout from being theirs, what crosses borders."""

from dataclasses import replace

import pytest

from gmi_drl.config.learners import LEARNERS
from gmi_drl.config.run_config import default_config
from gmi_drl.errors import NoFeasiblePlanError, UsageError
from gmi_drl.hardware.cluster import Cluster, Network, Nodes
from gmi_drl.hardware.node import Cpu, CpuDevices, Gpus, Node
from gmi_drl.layout.cut import Cut
from gmi_drl.templates import TCG_EX, TDG, TDG_EX
from gmi_drl.templates.dedicated import chain_of, chains
from gmi_drl.templates.over_nodes import OverNodes
from gmi_drl.workload import TASK_SPECS

ANT = TASK_SPECS["ant"]
NODE = Node(name="n", cpus=CpuDevices(cores_each=4, count=2), cpu=Cpu(cores=8, memory_gib=8))


def test_the_last_gmis_of_a_device_act_and_learn_and_the_others_simulate():
    layout = TDG_EX.lay_out(ANT, NODE, Cut(4, 64))
    each = [("simulator",), ("simulator",), ("agent",), ("trainer",)]
    assert [gmi.roles for gmi in layout.gmis] == 2 * each
    assert [gmi.num_env for gmi in layout.gmis] == 2 * [64, 64, 0, 0] and layout.num_env == 256
    assert layout.groups["trainers"].members == (3, 7) and layout.groups["trainers"].reduction == "MPR-shm"
    assert TDG_EX.leaders(layout) == (3,) and TDG_EX.reporters(layout) == (3, 7)
    assert layout.reasons[1] == "each device has 2 simulators for one agent and one trainer"
    assert not layout.share_cores


def test_in_serving_nobody_learns():
    layout = TDG.lay_out(ANT, NODE, Cut(3, 64))
    assert [gmi.roles for gmi in layout.gmis] == 2 * [("simulator",), ("simulator",), ("agent",)]
    assert TDG.leaders(layout) == TDG.reporters(layout) == (2, 5) and not layout.groups


def test_a_chain_is_the_gmis_of_a_device_and_counts_simulators_over_all():
    layout = TDG_EX.lay_out(ANT, NODE, Cut(4, 64))
    first, second = chains(layout)
    assert (first.simulators, first.agent, first.trainer) == ((0, 1), 2, 3)
    assert (second.simulators, second.agent, second.trainer) == ((4, 5), 6, 7)
    assert [first.place_of(0), first.place_of(1), second.place_of(4), second.place_of(5)] == [0, 1, 2, 3]
    assert [chain_of(layout, gmi.id).number for gmi in layout.gmis] == [0, 0, 0, 0, 1, 1, 1, 1]


def test_a_device_with_fewer_gmis_than_roles_is_too_small():
    with pytest.raises(
        NoFeasiblePlanError,
        match=r"TDG_EX needs 3 GMIs on each device .*, not 2 GMIs: ask for 3 .*--share-cores --gmis-per-gpu 3$",
    ):
        TDG_EX.lay_out(ANT, NODE, Cut(2, 64))


@pytest.mark.parametrize(("template", "usual"), [(TDG, 2), (TDG_EX, 3)])
def test_a_gpu_is_usually_cut_into_one_gmi_of_each_role(template, usual):
    node = Node(name="n", gpus=Gpus(model="A100", count=2), cpu=Cpu(cores=32, memory_gib=64))
    assert template.usual_gmis_per_gpu(node) == usual
    assert len(template.lay_out(ANT, node, Cut(usual, 64)).gmis) == 2 * usual


def test_cores_that_are_fewer_than_roles_are_shared_only_when_told():
    small = Node(name="n", cpu=Cpu(cores=2, memory_gib=8))
    layout = TDG_EX.lay_out(ANT, small, Cut(3, 64, share_cores=True))
    assert layout.share_cores and [gmi.cores for gmi in layout.gmis] == [(0,), (1,), (0,)]
    assert "take turns on cores" in layout.reasons[0] and "says anything" not in layout.reasons[0]


def changed(layout, gmi_id, **update):
    """The layout with one GMI of its first device changed."""
    device, *others = layout.devices
    gmis = tuple(gmi.model_copy(update=update) if gmi.id == gmi_id else gmi for gmi in device.gmis)
    return layout.model_copy(update={"devices": (device.model_copy(update={"gmis": gmis}), *others)})


@pytest.mark.parametrize(
    ("gmi_id", "update", "message"),
    [
        (2, {"roles": ("simulator",), "num_env": 8}, "needs on each device one agent and one trainer .* cpu 0 has sim"),
        (0, {"roles": ("agent",), "num_env": 0}, "cpu 0 has agent, simulator, agent, trainer"),
        (2, {"roles": ("agent", "trainer")}, r"cpu 0 has simulator, simulator, agent\+trainer, trainer"),
        (3, {"num_env": 8}, r"environments on simulators alone: leave num_env of GMIs \[3\] out"),
    ],
)
def test_each_mistake_is_told(gmi_id, update, message):
    layout = changed(TDG_EX.lay_out(ANT, NODE, Cut(4, 64)), gmi_id, **update)
    (mistake,) = TDG_EX.check(layout)
    with pytest.raises(UsageError, match=message):
        raise UsageError(mistake)


def test_trainers_alone_form_the_group_in_the_order_of_devices():
    layout = TDG_EX.lay_out(ANT, NODE, Cut(4, 64))
    group = layout.groups["trainers"]
    for members in ((7, 3), tuple(range(8)), (3,)):
        wrong = layout.model_copy(update={"groups": {"trainers": group.model_copy(update={"members": members})}})
        (mistake,) = TDG_EX.check(wrong)
        assert "needs the one group {'trainers': (3, 7)}" in mistake


def test_another_learner_is_refused_with_what_would_do():
    layout = TDG_EX.lay_out(ANT, NODE, Cut(3, 64))
    with pytest.raises(UsageError, match="not by rsl_rl: take --algo ppo, or a layout by TCG_EX"):
        TDG_EX.roles(layout, LEARNERS.find("rsl_rl"))
    assert set(TDG.roles(TDG.lay_out(ANT, NODE, Cut(3, 64)), LEARNERS.find("rsl_rl"))) == set(range(6)), "nobody learns"


def test_over_several_nodes_trainers_alone_are_in_the_group():
    kind = Node(name="n", cpu=Cpu(cores=4, memory_gib=8))
    cluster = Cluster(nodes=(Nodes(count=2, node=kind),), network=Network(gbit_per_s=10.0, round_trip_ms=0.1))
    template = OverNodes(TDG_EX, cluster)
    layout = template.lay_out(ANT, cluster.whole, Cut(3, 64))
    assert layout.groups["trainers"].members == (2, 5) and TDG_EX.check(layout) == []


def test_messages_carry_states_rewards_and_actions_and_in_training_experience_beside():
    learner = default_config(ANT).learner
    serving, training = (template.communication(ANT, learner, NODE) for template in (TDG, TDG_EX))
    step = 4 * (ANT.observation.size + ANT.action.size + 1) + 4
    assert serving.message_bytes_per_env == learner.horizon * step and serving.seconds([[0], [1]]) == 0
    experience = 4 * (ANT.observation.size + 2 * ANT.action.size + 5)
    assert training.message_bytes_per_env == learner.horizon * (step + experience)
    assert replace(training, message_bytes_per_env=0) == TCG_EX.communication(ANT, learner, NODE)
