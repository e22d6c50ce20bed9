"""What each side does by itself, and both at once."""

import math
import time
from contextlib import closing
from types import SimpleNamespace

import pytest
from conftest import two_cores

from gmi_drl.config.learners import A3CConfig
from gmi_drl.config.run_config import RunConfig
from gmi_drl.errors import UsageError
from gmi_drl.gmi import claimed
from gmi_drl.gmi.inventory import this_node
from gmi_drl.hardware.node import Cpu, Node
from gmi_drl.layout.cut import Cut
from gmi_drl.profiler.budget import Budget
from gmi_drl.profiler.identical_machines import Machines
from gmi_drl.profiler.rates import (
    AT_ONCE_S,
    _division_by,
    _learning,
    _ran_beside,
    both_at_once,
    rates_here,
    trainer_probe_of,
)
from gmi_drl.profiler.session import Session, probe_of
from gmi_drl.scheduler.agent_trainer_split import Division
from gmi_drl.scheduler.profile import ProfilePoint
from gmi_drl.templates import TCG
from gmi_drl.workload import TASK_SPECS

ANT = TASK_SPECS["ant"]
TINY = RunConfig(learner=A3CConfig(hidden=(8,), minibatches=1))
WAY = Division(Cut(3, 64), agents=2, trainers=1, produced=1e6, learnt=1e6)


def row(began_s, iteration_s):
    return {"began_s": began_s, "ended_s": began_s + 3.0, "iteration_s": iteration_s}


def test_what_ran_at_once_is_a_division_by_its_own_speeds():
    node = Node(name="n", cpu=Cpu(cores=3, memory_gib=8))
    machines = Machines(ANT, RunConfig(learner=A3CConfig(horizon=10)), None, node)
    ran = _division_by([row(0.0, 0.1), row(0.2, 0.3), row(0.5, 0.4)], WAY, machines)
    assert (ran.cut, ran.agents, ran.trainers) == (WAY.cut, 2, 1)
    assert ran.produced == pytest.approx(6400 + 640 / 0.3) and ran.learnt == pytest.approx(1600)


def test_learners_whose_trainers_have_no_probe_are_not_planned_for():
    with pytest.raises(UsageError, match="trainers of ppo on GMIs of their own cannot be measured: write the layout"):
        trainer_probe_of(RunConfig())


def test_what_ran_beside_each_other_too_briefly_tells_nothing_of_both():
    assert _ran_beside([row(0.0, 0.1), row(0.2, 0.3), row(0.5, 0.4)])
    assert not _ran_beside([row(0.0, 0.1), row(0.2, 0.3), row(0.8, 0.4)])


@pytest.mark.parametrize(("seconds", "measured"), [(AT_ONCE_S + 0.35, 1), (60 + AT_ONCE_S, 3)])
def test_time_is_kept_for_both_sides_at_once(seconds, measured, monkeypatch):
    class Quick:
        compiled_s = 0.0

        def __init__(self, layout, config, role):
            assert role == trainer_probe_of(TINY)

        def start(self, claim):
            pass

        def measure(self, num_env, measure_s, *, deadline_s):
            time.sleep(0.2)
            return SimpleNamespace(steps_per_second=10.0 * num_env)

        def close(self):
            pass

    monkeypatch.setattr("gmi_drl.profiler.rates.Session", Quick)
    node, cuts = this_node().model_copy(update={"gpus": None}), [Cut(1, 4), Cut(1, 8), Cut(1, 16)]
    found = _learning(ANT, TINY, node, cuts, Budget(seconds), lambda line: None)
    assert found == {cut: 10.0 * cut.num_env for cut in cuts[:measured]}


def test_only_of_what_runs_is_it_asked_how_fast_it_learns(monkeypatch):
    some = {"gmis_per_gpu": 1, "steps_per_second": 1.0}
    runs = ProfilePoint(num_env=4, runnable=True, **some)
    fails = ProfilePoint(num_env=8, runnable=False, reason="no room", **some)
    asked = []
    found = SimpleNamespace(profile=SimpleNamespace(points=[runs, fails]))
    monkeypatch.setattr("gmi_drl.profiler.rates.explore", lambda *_, **__: found)
    monkeypatch.setattr("gmi_drl.profiler.rates._learning", lambda task, config, node, cuts, *_: asked.extend(cuts))
    node = Node(name="n", cpu=Cpu(cores=2, memory_gib=8))
    assert rates_here(ANT, TINY, node, [runs.cut, fails.cut], Budget(60.0)).acting == [runs] and asked == [runs.cut]


@two_cores
@pytest.mark.parametrize("seconds", [0.0, 600.0])
def test_both_sides_run_at_once_where_there_is_time_and_what_they_did_is_told(seconds, monkeypatch):
    machines = Machines(ANT, TINY, {}, this_node().model_copy(update={"gpus": None}))
    way, started = Division(Cut(2, 4), 1, 1, 1e6, 1e6), []
    start = Session.start
    monkeypatch.setattr(Session, "start", lambda session, claim: started.append(session) or start(session, claim))
    monkeypatch.setattr("gmi_drl.profiler.rates.BESIDE", -math.inf)  # on a busy machine, too
    monkeypatch.setattr("gmi_drl.profiler.rates.AT_ONCE_S", 0.5)
    ran, told = both_at_once(way, machines, Budget(seconds))
    assert len(started) == (seconds > 0)
    if seconds:
        assert ran.confirmed > 0 and "1 agent x 4 environments: " in told
    else:
        assert ran is way and "0.0 s of the budget were left" in told and "--budget" in told


@two_cores
def test_gmis_of_a_session_have_probes_of_their_own():
    node = this_node().model_copy(update={"gpus": None})
    layout = TCG.lay_out(ANT, node, Cut(2, 4))
    roles = {0: probe_of(layout, TINY), 1: trainer_probe_of(TINY)}
    with claimed([layout], "a test") as claim, closing(Session(layout, TINY, role=roles)) as session:
        session.start(claim)
        acts, learns = session.measure(4, 0.1).rows
    assert acts["sim_s"] > 0 == acts["learn_s"] and learns["learn_s"] > 0 == learns["sim_s"]
