"""Plans of workers: what is measured, what runs, and what the reasons say."""

import signal

import pytest

from gmi_drl.config.learners import PPOConfig
from gmi_drl.config.run_config import RunConfig
from gmi_drl.errors import GmiError, NoFeasiblePlanError, UsageError
from gmi_drl.hardware.node import Cpu, Node
from gmi_drl.launch.signals import EndedAtOnce
from gmi_drl.launch.supervisor import Outcome
from gmi_drl.layout.cut import Cut
from gmi_drl.profiler import worker_plan
from gmi_drl.profiler.worker_plan import plan_here
from gmi_drl.roles.probes.worker_probe import round_trip_s
from gmi_drl.scheduler.worker_rates import WorkerRates
from gmi_drl.templates import TCG_EX, WORKERS, template_for
from gmi_drl.workload import TASK_SPECS

SPEC, CONFIG = TASK_SPECS["ball_balance"], RunConfig(learner=PPOConfig(hidden=(8,), horizon=8, minibatches=1))
NODE = Node(name="four", cpu=Cpu(cores=4, memory_gib=8))
GRID = [Cut(4, 8), Cut(4, 16), Cut(2, 8)]


def rates(num_env=16, update_s=1e-4):
    answers = {num_env // 2: 1e-3, num_env: 1.2e-3, 2 * num_env: 2e-3}
    return WorkerRates(num_env=num_env, step_s=0.02, answers=answers, update_s=update_s, trip_s=1e-4)


@pytest.fixture
def planned(monkeypatch):
    """Plans with these rates, and these steps/s by the template of the layout that runs."""

    def plan(speeds, seconds=1000.0, **more):
        monkeypatch.setattr(worker_plan, "measured", lambda *arguments: rates())
        monkeypatch.setattr(worker_plan, "run", lambda layout, *others: speeds(layout))
        return plan_here(SPEC, CONFIG, NODE, GRID, seconds=seconds, **more)

    return plan


def test_the_faster_of_the_best_two_is_taken_and_compared_with_tcg_ex(planned):
    told = []
    plan = planned(
        lambda layout: {"TCG_EX": 2000.0}.get(layout.template, 900.0 + 9 * bool(layout.streams)), tell=told.append
    )
    assert template_for(plan.layout, "training") is WORKERS and len(plan.layout.gmis) == 4
    assert plan.layout.num_env % 16 == 0 and plan.layout.projection.steps_per_second in (900.0, 909.0)
    (compared,) = [line for line in plan.layout.reasons if line.startswith("TCG_EX on the same cores")]
    assert "2.0k steps/s" in compared and "take TCG_EX, it is faster here" in compared
    assert sum("ran at" in line for line in told) == 3
    faster = planned(lambda layout: {"TCG_EX": 500.0}.get(layout.template, 900.0))
    assert not any("take TCG_EX" in line for line in faster.layout.reasons)


def test_what_was_not_run_is_said(planned):
    plan = planned(lambda layout: 1.0, seconds=0.0)
    assert "0 of 3 layouts were tried: give more with --budget" in plan.layout.reasons
    assert any("as expected, not run" in line for line in plan.layout.reasons)

    def fails(layout):
        raise GmiError("GMI 0 was killed\nits log")

    told = []
    assert planned(fails, tell=told.append).layout.projection.steps_per_second > 0
    assert sum(line.endswith("did not run: GMI 0 was killed") for line in told) == 3


def test_what_failed_does_not_ask_for_more_time(planned):
    def fails(layout):
        raise GmiError("GMI 0 was killed")

    assert not any("--budget" in line for line in planned(fails).layout.reasons)


def test_a_signal_ends_the_plan_and_not_only_the_training_that_runs(monkeypatch):
    stopped = Outcome("stopped", 1, signal.SIGINT, None)
    monkeypatch.setattr(worker_plan, "train", lambda job, on_row: stopped)
    with pytest.raises(EndedAtOnce):
        worker_plan.run(TCG_EX.lay_out(SPEC, NODE, Cut(2, 8)), CONFIG, 1.0)


def test_each_worker_has_a_core_where_no_number_was_asked_for():
    node = Node(name="sixteen", cpu=Cpu(cores=16, memory_gib=8))
    assert worker_plan._cut_of([Cut(gmis, 8) for gmis in range(1, 11)], node) == Cut(16, 8)
    assert worker_plan._cut_of([Cut(4, 8)], node) == Cut(4, 8)


def test_a_plan_says_which_machine_it_is_for(planned):
    assert planned(lambda layout: 1.0).layout.made_for.name == "four"


def test_layouts_of_all_divisions_are_valid():
    for split in worker_plan.worker_splits(rates(), 4):
        layout = worker_plan.layout_of(SPEC, NODE, Cut(4, 16), split, worker_plan.Projection(measured=False), ())
        assert WORKERS.check(layout) == [], split
        assert len(layout.with_role("trainer")) == split.trainers and (layout.streams is None) == (split.policies == 0)


def test_machines_that_have_nothing_to_divide_are_refused(planned):
    with pytest.raises(NoFeasiblePlanError, match="no room for an actor and a trainer"):
        plan_here(SPEC, CONFIG, NODE, [Cut(1, 8)], seconds=1.0)
    with pytest.raises(UsageError, match=r"learner\.kind ppo"):
        plan_here(SPEC, RunConfig(learner={"kind": "a3c"}), NODE, GRID, seconds=1.0)


def test_a_round_trip_is_measured_with_a_child_of_its_own():
    assert 0 < round_trip_s() < 10
