"""What plans of agents and trainers apart are chosen from."""

from contextlib import closing

import pytest
from conftest import two_cores

from gmi_drl.cluster import Cluster, Network, Nodes
from gmi_drl.config import RunConfig
from gmi_drl.cut import Cut
from gmi_drl.errors import NoFeasiblePlanError, UsageError
from gmi_drl.gmi import claimed
from gmi_drl.gmi.inventory import this_node
from gmi_drl.hardware import Cpu, CpuDevices, Node
from gmi_drl.learners import A3CConfig
from gmi_drl.pools import pools_of
from gmi_drl.profile import Profile, ProfilePoint
from gmi_drl.profiler.both_sides import PROBE, _ran, _together, _with_room, plan_here
from gmi_drl.profiler.budget import Budget
from gmi_drl.profiler.planning import Exploration
from gmi_drl.profiler.session import Session, probe_of
from gmi_drl.scheduler.division import Division, divisions
from gmi_drl.templates import DECOUPLED, TCG
from gmi_drl.workload import TASK_SPECS

ANT = TASK_SPECS["ant"]


def ways_in(memory_gib, horizon=8):
    """The environments of what is left to choose from."""
    node = Node(name="n", cpus=CpuDevices(cores_each=2, count=1), cpu=Cpu(cores=2, memory_gib=memory_gib))
    rows = [{"num_env": num_env, "memory_bytes": 2**29} for num_env in (64, 8192)]
    acting = [ProfilePoint(gmis_per_gpu=2, runnable=True, steps_per_second=1000.0, **row) for row in rows]
    ways = divisions(node, acting, {point.cut: 1e6 for point in acting}, horizon)
    left = _with_room(ways, acting, ANT, RunConfig(learner=A3CConfig(horizon=horizon)), node)
    return [way.cut for way in left]


def test_what_has_room_is_left_with_its_channels():
    assert ways_in(2) == [Cut(2, 64), Cut(2, 8192)]
    assert ways_in(2, horizon=256) == [Cut(2, 64)], "three batches of 8192 worlds and 256 steps are 1.7 GiB"


def test_what_has_no_room_at_all_is_no_plan():
    told = (
        r"1 agent x 64 env.*, but 2 GMIs and 0\.0 GiB of channels would take 1\.0 GiB of the host's 1\.0 GiB: .*max_lag"
    )
    with pytest.raises(NoFeasiblePlanError, match=told):
        ways_in(1)


def plan_over(round_trip_ms, monkeypatch, cores=2):
    """For three nodes of two cores each, on which a GMI acts 1000 steps/s and can learn from many."""
    node = Node(name="here", cpu=Cpu(cores=2, memory_gib=8))
    kind = node.model_copy(update={"name": "n", "cpu": Cpu(cores=cores, memory_gib=8)})
    network = Network(gbit_per_s=10, round_trip_ms=round_trip_ms)
    cluster = Cluster(network=network, nodes=(Nodes(count=3, node=kind),))
    point = ProfilePoint(gmis_per_gpu=2, num_env=64, runnable=True, steps_per_second=1000.0)
    profile = Profile(task="ant", learner="a3c", node="here", points=(point,))
    for name, given in (
        ("explore", Exploration(profile, (), 0.0)),
        ("_learning", {point.cut: 1e6}),
        ("known_speeds", None),
        ("budget_of", Budget(0.0)),
    ):
        monkeypatch.setattr(f"gmi_drl.profiler.both_sides.{name}", lambda *_, given=given, **__: given)
    return plan_here(ANT, RunConfig(learner=A3CConfig()), node, [point.cut], seconds=0.0, cluster=cluster).layout


def test_nodes_like_this_one_are_each_divided_as_it_is(monkeypatch):
    layout = plan_over(0.1, monkeypatch)
    assert layout.nodes == ("n-0", "n-1", "n-2") and layout.projection.steps_per_second == pytest.approx(3000)
    assert [pool.trainers for pool in pools_of(layout)] == [(1,), (3,), (5,)]
    assert layout.groups["trainers"].members == (1, 3, 5) and DECOUPLED.check(layout) == []
    assert "one node alone does 1.0k steps/s, all 3 do 3.0k" in " ".join(layout.reasons)


def test_one_node_is_planned_where_sums_between_all_take_too_long(monkeypatch):
    layout = plan_over(5000.0, monkeypatch)
    assert layout.nodes == (None,) and layout.projection.steps_per_second == pytest.approx(1000)
    assert layout.groups["trainers"].reduction == "none"


def test_nodes_of_which_this_machine_tells_nothing_are_refused(monkeypatch):
    with pytest.raises(UsageError, match=r"a plan was made for n with 4 cores, here 2: measure on a machine like all"):
        plan_over(0.1, monkeypatch, cores=4)


WAY = Division(Cut(3, 64), agents=2, trainers=1, produced=1e6, learnt=1e6)


def row(began_s, iteration_s):
    return {"began_s": began_s, "ended_s": began_s + 3.0, "iteration_s": iteration_s}


def test_what_ran_at_once_is_a_division_by_its_own_speeds():
    ran = _ran(WAY, [row(0.0, 0.1), row(0.2, 0.3), row(0.5, 0.4)], horizon=10, sums=lambda cut, trainers: 0.0)
    assert (ran.cut, ran.agents, ran.trainers) == (WAY.cut, 2, 1)
    assert ran.produced == pytest.approx(6400 + 640 / 0.3) and ran.learnt == pytest.approx(1600)


def test_what_ran_beside_each_other_too_briefly_tells_nothing_of_both():
    assert _ran(WAY, [row(0.0, 0.1), row(0.2, 0.3), row(0.8, 0.4)], 10, lambda cut, trainers: 0.0) is None


@two_cores
@pytest.mark.parametrize("seconds", [0.0, 600.0])
def test_both_sides_run_at_once_where_there_is_time_and_what_they_did_is_told(seconds, monkeypatch):
    node, config = (
        this_node().model_copy(update={"gpus": None}),
        RunConfig(learner=A3CConfig(hidden=(8,), minibatches=1)),
    )
    way, told, started = Division(Cut(2, 4), 1, 1, 1e6, 1e6), [], []
    start = Session.start
    monkeypatch.setattr(Session, "start", lambda session, claim: started.append(session) or start(session, claim))
    monkeypatch.setattr("gmi_drl.profiler.both_sides.BESIDE", 0.0)  # on a busy machine, too
    ran = _together(way, ANT, config, node, lambda cut, trainers: 0.0, Budget(seconds), told.append)
    assert len(started) == (seconds > 0)
    assert told == ([f"both sides at once: {ran.described}"] if ran else []) and (ran is None or seconds)


@two_cores
def test_gmis_of_a_session_have_probes_of_their_own():
    node = this_node().model_copy(update={"gpus": None})
    layout, config = TCG.lay_out(ANT, node, Cut(2, 4)), RunConfig(learner=A3CConfig(hidden=(8,), minibatches=1))
    roles = {0: probe_of(layout, config), 1: PROBE}
    with claimed([layout], "a test") as claim, closing(Session(layout, config, role=roles)) as session:
        session.start(claim)
        acts, learns = session.measure(4, 0.1).rows
    assert acts["sim_s"] > 0 == acts["learn_s"] and learns["learn_s"] > 0 == learns["sim_s"]
