import math
from contextlib import nullcontext
from dataclasses import replace
from types import SimpleNamespace

import pytest
from conftest import tiny_config

from gmi_drl.config.run_config import default_config
from gmi_drl.errors import NoFeasiblePlanError, UsageError
from gmi_drl.gmi.inventory import this_node
from gmi_drl.hardware.node import Cpu, Gpus, Node
from gmi_drl.profiler import confirm, measured_plan, noise, points
from gmi_drl.profiler.budget import Budget
from gmi_drl.profiler.measured_plan import plan_here
from gmi_drl.profiler.noise import noise_here
from gmi_drl.profiler.session import Session
from gmi_drl.scheduler import grid_of
from gmi_drl.scheduler.noise_scale import NoiseScale
from gmi_drl.templates import TCG
from gmi_drl.units import human_count
from gmi_drl.workload import TASK_SPECS
from tests.gmi.nvml.fake import FakeGpu

ANT = TASK_SPECS["ant"]


def test_a_short_training_tells_the_scale_which_is_remembered(monkeypatch):
    monkeypatch.setattr(noise, "NUM_ENV", 64)
    monkeypatch.setattr(noise, "SECONDS", 1.0)
    lines, node, budget = [], this_node(), Budget(math.inf)
    found = noise_here(ANT, tiny_config(), node, budget, tell=lines.append)
    assert found is not None and found.samples > 0
    iterations = found.trained / (64 * tiny_config().learner.horizon)
    assert iterations >= 2 and iterations == int(iterations)
    assert lines == [f"gradient noise scale: {found.described}"]
    monkeypatch.setattr(Session, "start", None)  # nothing is started again
    assert noise_here(ANT, tiny_config(), node, budget) == found


@pytest.mark.parametrize(("mig", "backend"), [(None, "process"), (("7g.80gb",), "mig")])
def test_on_a_gpu_in_mig_mode_the_gmi_is_a_mig_instance(fake_nvml, mig, backend):
    fake_nvml.add(FakeGpu(name="NVIDIA A100-SXM4-80GB", mig=mig))
    node = Node(name="here", gpus=Gpus(model="NVIDIA A100-SXM4-80GB", count=1), cpu=Cpu(cores=2, memory_gib=8))
    assert noise._alone_here(ANT, node).backend == backend


UNLIKE, ALIKE = grid_of({1: [8, 16]}), grid_of({1: [16], 2: [8]})


def planned(monkeypatch, noise, grid=UNLIKE, **more):
    """The reasons of a plan, where a training would tell this scale, and whether it was asked.

    GMIs run, but the speeds are given: more environments do more steps, of which each then teaches less.
    """
    asked, measure = [], Session.measure

    def measured(session, num_env, seconds, **more):
        speed = 1000.0 * (num_env * len(session.layout.gmis)) ** 0.5
        return replace(measure(session, num_env, seconds, **more), steps_per_second=speed)

    monkeypatch.setattr(Session, "measure", measured)
    monkeypatch.setattr(measured_plan, "noise_here", lambda *args, **more: asked.append(args) or noise)
    for module in (points, measured_plan, confirm):
        monkeypatch.setattr(module, "MEASURE_S", 0.05)
    plan = plan_here(ANT, tiny_config(), this_node(), grid, seconds=100, **more)
    return "\n".join(plan.layout.reasons), bool(asked)


def test_what_learns_most_is_chosen_unless_the_most_steps_are_asked_for(monkeypatch):
    reasons, _ = planned(monkeypatch, NoiseScale(samples=1.0))
    choice = reasons.splitlines()[0]
    assert "chosen from 2" in choice and ": 1 x 8 environments" in choice and "useful steps/s" in reasons
    reasons, asked = planned(monkeypatch, NoiseScale(samples=1.0), objective="steps")
    assert ": 1 x 16 environments" in reasons.splitlines()[0] and not asked


def test_where_a_scale_cannot_be_told_the_most_steps_are_chosen_or_it_is_an_error(monkeypatch):
    reasons, asked = planned(monkeypatch, None)
    assert (
        asked
        and "the gradient's noise is too large to measure the gradient noise scale; so the most steps/s" in reasons
    )
    with pytest.raises(NoFeasiblePlanError, match=r"noise is too large.*--objective steps"):
        planned(monkeypatch, None, objective="learning")


@pytest.mark.parametrize(("grid", "more"), [(ALIKE, {}), (UNLIKE, {"template": TCG})])
def test_where_all_updates_are_alike_or_nothing_learns_no_scale_is_asked_for(monkeypatch, grid, more):
    assert planned(monkeypatch, None, grid, **more)[1] is False


def test_a_learner_that_brings_no_such_probe_is_refused():
    config = default_config(ANT, "rsl_rl")
    with pytest.raises(
        UsageError, match=r"nothing measures the gradient noise scale of rsl_rl: take --objective steps"
    ):
        noise_here(ANT, config, this_node(), Budget(0))


def asked_for(monkeypatch, task=ANT, gpus=None):
    """What a training is asked for that finds no time left: its environments and seconds; and what it tells."""
    asked, told = [], []

    class Training:
        compiled_s = 0.0

        def __init__(self, layout, config, *, role):
            pass

        def start(self, claim):
            pass

        def close(self):
            pass

        def measure(self, num_env, seconds, *, deadline_s):
            asked.extend((num_env, seconds))
            return SimpleNamespace(rows=[{"squares": [(1.0, 0.5)], "small": 1, "large": 16}])

    monkeypatch.setattr(noise, "Session", Training)
    monkeypatch.setattr(noise, "claimed", lambda *_: nullcontext())
    node = Node(name="n", gpus=gpus, cpu=Cpu(cores=4, memory_gib=8))
    noise_here(task, tiny_config(), node, Budget(0), tell=told.append)
    return asked, told


@pytest.mark.parametrize(("gpus", "seconds"), [(None, 0.0), ({"model": "X", "count": 1}, noise.LEAST_S)])
def test_on_a_gpu_a_start_that_took_the_whole_budget_still_has_a_short_training(monkeypatch, gpus, seconds):
    assert asked_for(monkeypatch, gpus=gpus)[0] == [noise.NUM_ENV, seconds]


def test_it_learns_from_whole_worlds(monkeypatch):
    (num_env, _), told = asked_for(monkeypatch, replace(ANT, agents=3))
    assert num_env == 513 and f"from {human_count(513 * tiny_config().learner.horizon)} samples" in told[0]
