"""What plans of agents and trainers apart are chosen from."""

from dataclasses import replace

import pytest

from gmi_drl.config.learners import A3CConfig, SACConfig
from gmi_drl.config.learners.off_policy import ReplaySettings
from gmi_drl.config.run_config import RunConfig
from gmi_drl.errors import NoFeasiblePlanError, UsageError
from gmi_drl.hardware.cluster import Cluster, Network, Nodes
from gmi_drl.hardware.node import Cpu, CpuDevices, Node
from gmi_drl.layout.cut import Cut
from gmi_drl.layout.pools import pools_of
from gmi_drl.profiler.budget import Budget
from gmi_drl.profiler.decoupled_plan import _fitting_divisions, plan_here
from gmi_drl.profiler.identical_machines import Machines
from gmi_drl.profiler.rates import Rates
from gmi_drl.scheduler.profile import ProfilePoint
from gmi_drl.templates import DECOUPLED
from gmi_drl.workload import TASK_SPECS

ANT = TASK_SPECS["ant"]


def ways_in(memory_gib, horizon=8, learner=None):
    """The environments of what is left to choose from, with A3C or another learner."""
    node = Node(name="n", cpus=CpuDevices(cores_each=2, count=1), cpu=Cpu(cores=2, memory_gib=memory_gib))
    rows = [{"num_env": num_env, "memory_bytes": 2**29} for num_env in (64, 8192)]
    acting = [ProfilePoint(gmis_per_gpu=2, runnable=True, steps_per_second=1000.0, **row) for row in rows]
    machines = Machines(ANT, RunConfig(learner=learner or A3CConfig(horizon=horizon)), None, node)
    return [way.cut for way in _fitting_divisions(machines, Rates(acting, {point.cut: 1e6 for point in acting}))]


def test_what_has_room_is_left_with_its_channels():
    assert ways_in(2) == [Cut(2, 64), Cut(2, 8192)]
    assert ways_in(2, horizon=256) == [Cut(2, 64)], "three batches of 8192 worlds and 256 steps are 1.7 GiB"


def test_what_has_no_room_at_all_is_no_plan():
    told = (
        r"1 agent x 64 env.*, but 2 GMIs and .* KiB of channels would take 1\.0 GiB of the host's 1\.0 GiB: .*max_lag"
    )
    with pytest.raises(NoFeasiblePlanError, match=told):
        ways_in(1)


def test_a_ring_of_the_trainer_must_have_room():
    replay = ReplaySettings(size=4_000_000)
    assert ways_in(3, learner=SACConfig(replay=replay)) == [Cut(2, 64), Cut(2, 8192)]
    told = (
        r"and .* GiB of channels and rings would take 2.* GiB of the host's 2\.0 GiB: .*max_lag.*lower .*replay\.size"
    )
    with pytest.raises(NoFeasiblePlanError, match=told):
        ways_in(2, learner=SACConfig(replay=replay))


def plan_over(round_trip_ms, monkeypatch, cores=2, count=3):
    """For so many nodes of two cores each, on which a GMI acts 1000 steps/s and can learn from many."""
    node = Node(name="here", cpu=Cpu(cores=2, memory_gib=8))
    kind = node.model_copy(update={"name": "n", "cpu": Cpu(cores=cores, memory_gib=8)})
    network = Network(gbit_per_s=10, round_trip_ms=round_trip_ms)
    cluster = Cluster(network=network, nodes=(Nodes(count=count, node=kind),))
    point = ProfilePoint(gmis_per_gpu=2, num_env=64, runnable=True, steps_per_second=1000.0)
    for name, given in (
        ("rates_here", Rates([point], {point.cut: 1e6})),
        ("known_speeds", {}),
        ("budget_of", Budget(0.0)),
    ):
        monkeypatch.setattr(f"gmi_drl.profiler.decoupled_plan.{name}", lambda *_, given=given, **__: given)
    return plan_here(ANT, RunConfig(learner=A3CConfig()), node, [point.cut], seconds=0.0, cluster=cluster)


def test_nodes_like_this_one_are_each_divided_as_it_is(monkeypatch):
    layout = plan_over(0.1, monkeypatch).layout
    assert layout.nodes == ("n-0", "n-1", "n-2") and layout.projection.measured
    assert layout.projection.steps_per_second == pytest.approx(3000)
    assert [pool.trainers for pool in pools_of(layout)] == [(1,), (3,), (5,)]
    assert layout.groups["trainers"].members == (1, 3, 5) and DECOUPLED.check(layout) == []
    assert "one node alone does 1.0k steps/s, all 3 do 3.0k" in " ".join(layout.reasons)


def test_one_node_is_planned_where_sums_between_all_take_too_long(monkeypatch):
    layout = plan_over(5000.0, monkeypatch).layout
    assert layout.nodes == (None,) and layout.projection.steps_per_second == pytest.approx(1000)
    assert layout.groups["trainers"].reduction == "none"


def test_nodes_of_which_this_machine_tells_nothing_are_refused(monkeypatch):
    with pytest.raises(UsageError, match=r"a plan was made for n with 4 cores, here 2: measure on a machine like all"):
        plan_over(0.1, monkeypatch, cores=4)


def test_both_sides_that_had_no_time_to_run_at_once_are_told(monkeypatch):
    plan = plan_over(0.1, monkeypatch)
    short = "0.0 s of the budget were left, 3 s are wanted: give more with --budget"
    assert any("not run at once" in reason and short in reason for reason in plan.layout.reasons)
    assert plan.divisions[0].error is None


def test_what_both_sides_did_at_once_stands_beside_what_was_foretold(monkeypatch):
    def ran(way, machines, budget):
        return replace(way, confirmed=800.0), "both sides at once: 800"

    monkeypatch.setattr("gmi_drl.profiler.decoupled_plan.both_at_once", ran)
    plan = plan_over(0.1, monkeypatch)
    told = "by the rates of each side alone 1.0k steps/s were expected, 800 ran: an error of +25.0%"
    assert told in plan.layout.reasons and plan.layout.projection.steps_per_second == pytest.approx(2400)
    best = plan.divisions[0]
    assert (best.agents, best.trainers, best.confirmed) == (3, 3, pytest.approx(2400))
    assert best.error == pytest.approx(0.25)


def test_one_gmi_is_no_plan_and_the_remedy_is_told():
    alone = Node(name="alone", cpu=Cpu(cores=1, memory_gib=8))
    with pytest.raises(NoFeasiblePlanError, match="--budget 0 --share-cores --gmis-per-gpu 2"):
        plan_here(ANT, RunConfig(learner=A3CConfig()), alone, [Cut(1, 64)], seconds=0.0)
