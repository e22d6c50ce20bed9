"""Plans that make the most of what steps teach."""

import re

import pytest

from gmi_drl.config.learners import PPOConfig
from gmi_drl.hardware.node import Cpu, Node
from gmi_drl.scheduler import grid_of, plan_measured
from gmi_drl.scheduler.explain.explain import explain
from gmi_drl.scheduler.noise_scale import NoiseScale
from gmi_drl.scheduler.profile import Profile, ProfilePoint
from gmi_drl.templates import TCG
from gmi_drl.workload import TASK_SPECS

ANT, PPO, NODE = TASK_SPECS["ant"], PPOConfig(), Node(name="n", cpu=Cpu(cores=2, memory_gib=64))
SPEEDS = {(2, 128): 10_000.0, (2, 4096): 12_000.0, (1, 256): 15_000.0}
GRID = grid_of({1: [256], 2: [128, 4096]})
NOISE = NoiseScale(samples=4096.0, relative_error=0.2, trained=80_000)


def planned(objective, noise=NOISE, **more):
    points = tuple(
        ProfilePoint(gmis_per_gpu=gmis, num_env=num_env, runnable=True, steps_per_second=speed)
        for (gmis, num_env), speed in SPEEDS.items()
    )
    profile = Profile(task="ant", learner="ppo", node="n", noise=noise, points=points)
    return plan_measured(ANT, PPO, NODE, profile, GRID, objective=objective, **more)


def chosen(plan):
    return plan.candidates[0].point.cut


def test_many_environments_win_in_steps_and_few_in_what_they_teach():
    assert str(chosen(planned("steps"))) == "2 x 4096"
    by_learning = planned("learning")
    assert str(chosen(by_learning)) == "2 x 128" and by_learning.layout.num_env == 256
    assert by_learning.candidates[0].efficiency == pytest.approx(0.5)  # 2 x 128 x 16 samples are the noise scale
    assert by_learning.candidates[-1].efficiency == pytest.approx(1 / 33)


def test_without_a_noise_scale_nothing_is_known_of_what_steps_teach():
    plan = planned("steps", noise=None)
    assert not plan.knows_what_pays and plan.candidates[0].efficiency is None
    assert any("another number changes what a step teaches" in reason for reason in plan.layout.reasons)


@pytest.mark.parametrize(("objective", "other"), [("steps", "most useful steps/s: 2 x 128"), ("learning", "2 x 4096")])
def test_reasons_tell_the_scale_the_efficiency_and_what_the_other_objective_takes(objective, other):
    reasons = "\n".join(planned(objective).layout.reasons)
    assert "gradient noise scale (arXiv 1812.06162): 4.1k samples, give or take 20%, over the first 80.0k" in reasons
    assert "it grows as a policy gets better" in reasons
    assert re.search(r"4\.1k samples per update; a sample teaches 50%|131\.1k .* teaches 3%", reasons)
    assert other in reasons


def test_fewer_steps_that_teach_more_pay():
    """One GMI with many environments does more steps, which teach less."""
    speeds = {(1, 4096): 30_000.0, (2, 128): 10_000.0}
    points = tuple(
        ProfilePoint(gmis_per_gpu=gmis, num_env=num_env, runnable=True, steps_per_second=speed)
        for (gmis, num_env), speed in speeds.items()
    )
    profile = Profile(task="ant", learner="ppo", node="n", noise=NOISE, points=points)
    grid = [point.cut for point in points]
    plan = plan_measured(ANT, PPO, NODE, profile, grid, objective="learning")
    assert str(chosen(plan)) == "2 x 128"
    assert any("0.67x the best of one GMI per device" in reason for reason in plan.layout.reasons)
    assert not any("does not pay" in reason for reason in plan.layout.reasons)


def test_what_ran_together_goes_first_by_what_it_teaches():
    confirmed = dict.fromkeys(GRID, 20_000.0)
    plan = planned("learning", confirmed=confirmed)
    assert [str(candidate.point.cut) for candidate in plan.candidates] == ["1 x 256", "2 x 128", "2 x 4096"]
    assert str(chosen(planned("learning", confirmed={GRID[2]: 1.0}))) == "2 x 4096"


def test_the_formula_is_told_with_its_numbers():
    best, other = explain(planned("learning"))
    (formula,) = [one for one in best.formulas if "teach" in one.name]
    assert formula.lines[0] == "steps/s / (1 + samples per update / gradient noise scale)"
    assert "/ (1 + 4.1k / 4.1k)" in formula.lines[1] and formula.lines[2].endswith("useful steps/s")
    assert "useful steps/s are the most" in best.verdict and "useful steps/s, 0." in other.verdict


def test_serving_teaches_nothing():
    plan = planned("steps", template=TCG)
    assert not plan.knows_what_pays
