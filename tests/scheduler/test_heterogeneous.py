"""Unlike GPUs, cut each in its own way."""

import pytest
from measures import point

from gmi_drl.config.learners import PPOConfig
from gmi_drl.hardware.node import Cpu, Gpus, Node
from gmi_drl.layout.cut import Cut, Cuts
from gmi_drl.scheduler import plan_measured, profile_grid
from gmi_drl.scheduler.explain.explain import explain
from gmi_drl.scheduler.noise_scale import NoiseScale
from gmi_drl.scheduler.profile import Profile
from gmi_drl.scheduler.what_if import compare
from gmi_drl.templates import TCG, TCG_EX
from gmi_drl.workload import TASK_SPECS

ANT, PPO = TASK_SPECS["ant"], PPOConfig()
SLOW, FAST = "A100-SXM4-40GB", "NVIDIA H200"
NODE = Node(
    name="mixed",
    gpus=(Gpus(model=SLOW, count=2), Gpus(model=FAST, count=1)),
    link="pcie",
    cpu=Cpu(cores=24, memory_gib=64),
)
KNOWN = (
    (SLOW, 1, 1000, 10_000.0),  # 1.6 s with a horizon of 16
    (SLOW, 2, 1000, 10_000.0),  # as long, on half of the GPU each
    (SLOW, 2, 2000, 11_000.0),  # 2.9 s
    (FAST, 1, 1000, 40_000.0),  # 0.4 s
    (FAST, 2, 2000, 20_000.0),  # 1.6 s
    (FAST, 2, 4000, 30_000.0),  # 2.1 s
)


def planned(known=KNOWN, node=NODE, template=TCG_EX, noise=None, keep_batch=None, others=(), **more):
    points = tuple(point(*rest).model_copy(update={"model": model}) for model, *rest in known)
    profile = Profile(task="ant", learner="ppo", node="somewhere", noise=noise, points=(*points, *others))
    grid = profile_grid(profile, node, PPO.horizon, keep_batch)
    return plan_measured(ANT, PPO, node, profile, grid, template=template, **more)


def environments(plan):
    return [tuple(gmi.num_env for gmi in device.gmis) for device in plan.layout.devices]


def test_each_model_has_as_many_environments_as_it_steps_in_the_time_of_the_slowest():
    plan = planned()
    # Within 1.6 s: (2 x 2 x 1000 + 2 x 2000) x 16 / 1.6 s = 80k; within 2.1 s, with 2 x 4000, 90k; within 2.9 s 88k.
    assert environments(plan) == [(1000, 1000), (1000, 1000), (4000, 4000)]
    best = plan.candidates[0]
    assert best.projected == pytest.approx(90_000)
    assert 0 < best.expected < best.projected
    assert plan.samples_per_update(best) == 12_000 * 16 and plan.layout.num_env == 12_000
    assert [gmi.id for gmi in plan.layout.gmis] == list(range(6))
    alike = plan.candidates[1]  # all as the slower: 2 x 2000 on all three
    assert alike.point.cut == Cut(2, 2000) and alike.projected == 3 * 2 * 11_000
    (told,) = [reason for reason in plan.layout.reasons if "unlike" in reason]
    assert "each model is cut in its own way" in told and "1.36x the best of cutting all alike (2 x 2000" in told


def test_where_cutting_alike_is_as_good_all_are_cut_alike():
    known = [(model, *rest) for model in (SLOW, FAST) for _, *rest in KNOWN[:3]]
    plan = planned(known)
    assert not plan.candidates[0].by_model and len(set(environments(plan))) == 1
    assert any("unlike (A100-SXM4-40GB, H200) and cut alike" in reason for reason in plan.layout.reasons)


def test_a_batch_is_kept_by_other_numbers_of_gmis_with_as_many_environments():
    known = [(SLOW, 1, 2000, 15_000.0), (SLOW, 2, 1000, 9_000.0), (FAST, 1, 2000, 18_000.0), (FAST, 2, 1000, 8_000.0)]
    plan = planned(known, keep_batch=6000 * PPO.horizon)
    assert environments(plan) == [(1000, 1000), (1000, 1000), (2000,)] and plan.layout.num_env == 6000


def test_one_gmi_for_each_gpu_is_no_cut_where_environments_alone_differ():
    solo = planned([(SLOW, 1, 1000, 10_000.0), (FAST, 1, 1000, 40_000.0), (FAST, 1, 4000, 40_000.0)])
    assert environments(solo) == [(1000,), (1000,), (4000,)] and solo.best_solo is solo.candidates[0]
    parted = planned([(SLOW, 1, 1000, 10_000.0), (FAST, 1, 1000, 40_000.0), (FAST, 2, 2000, 20_000.0)])
    assert environments(parted) == [(1000,), (1000,), (2000, 2000)]  # the slowest has one GMI
    assert parted.best_solo is parted.candidates[1]
    assert any("2.00x the best of one GMI per device" in line for line in parted.layout.reasons)


def test_each_backend_is_compared_at_its_best():
    """Also one by which all GPUs are best cut unlike, but which another one beats."""
    by_mps = [
        point(gmis, num_env, speed * 1.5).model_copy(update={"model": model, "backend": "mps"})
        for model, gmis, num_env, speed in KNOWN
    ]
    plan = planned(others=by_mps)
    assert plan.layout.backend == "mps" and plan.candidates[0].by_model
    (other,) = [one for one in plan.candidates if one.by_model and one.point.backend == "process"]
    assert any(line.startswith("1.50x the best by process (2 x 1000") for line in plan.layout.reasons)
    assert other.expected == pytest.approx(planned().candidates[0].expected)


def test_gpus_are_cut_with_caps_where_that_was_faster():
    capped = [
        point(gmis, num_env, speed * 1.5).model_copy(update={"model": model, "backend": "mps", "capped": gmis > 1})
        for model, gmis, num_env, speed in KNOWN
    ]
    plan = planned(others=capped)
    assert plan.layout.backend == "mps" and plan.candidates[0].cut.way == "capped mps"
    assert {gmi.share for gmi in plan.layout.gmis} == {1 / len(plan.layout.devices[0].gmis)}
    assert any("each has at most 50 % of its GPU's SMs" in reason for reason in plan.layout.reasons)


def test_models_that_have_no_cut_in_common_are_planned_together():
    plan = planned([KNOWN[1], KNOWN[5]])
    assert environments(plan) == [(1000, 1000), (1000, 1000), (4000, 4000)]
    assert any("no cut was measured on each of them" in reason for reason in plan.layout.reasons)


def test_serving_waits_for_nobody_so_each_model_takes_its_fastest():
    plan = planned(template=TCG)
    assert environments(plan) == [(2000, 2000), (2000, 2000), (4000, 4000)]
    assert plan.candidates[0].expected == 2 * 2 * 11_000 + 2 * 30_000
    assert any(line.endswith("its fastest cut, as none waits for another") for line in plan.layout.reasons)


def test_what_does_not_fit_a_model_or_the_host_is_not_taken():
    large = 30 * 2**30  # bytes of each of two: an H200 has the room
    known = [(SLOW, 1, 1000, 10_000.0), (SLOW, 2, 2000, 11_000.0, large), *KNOWN[3:]]
    assert environments(planned(known))[0] == (1000,)
    small = NODE.model_copy(update={"cpu": Cpu(cores=24, memory_gib=4)})
    points = [point(*rest).model_copy(update={"model": model, "host_bytes": 2**30}) for model, *rest in KNOWN]
    profile = Profile(task="ant", learner="ppo", node="somewhere", points=tuple(points))
    plan = plan_measured(ANT, PPO, small, profile, profile_grid(profile, small, PPO.horizon))
    assert len(plan.layout.gmis) == 3


def test_by_what_steps_teach_fewer_environments_are_taken():
    plan = planned(noise=NoiseScale(samples=1000.0), objective="learning")
    assert plan.layout.num_env < planned().layout.num_env and plan.candidates[0].efficiency is not None


def test_the_formula_has_its_numbers():
    best, _ = explain(planned())
    assert "2 x 1000 environments on each A100" in best.title
    formulas = {formula.name: formula for formula in best.formulas}
    throughput = formulas["Throughput of unlike GPUs (equation 3)"]
    assert throughput.lines[1].startswith("(2 x 2 x 1000 + 1 x 2 x 4000) x 16 / (2133 ms + ")
    assert formulas["Size of communication (Table 5, TCG_EX)"].lines[1].endswith(" / 6")  # GMIs
    of_fast = formulas[f"Saturation of a GMI (Algorithm 2, lines 15 to 19), {FAST}"]
    assert of_fast.remark == "memory was not measured, so any gain of speed is worth it"
    serving, *_ = explain(planned(template=TCG))
    assert serving.formulas[-1].lines[1] == "2 x 2 x 11.0k + 1 x 2 x 30.0k"


def test_machines_are_compared_at_their_best_cut():
    points = tuple(point(*rest).model_copy(update={"model": model}) for model, *rest in KNOWN)
    profile = Profile(task="ant", learner="ppo", node="somewhere", points=points)
    (case,) = compare(ANT, PPO, [NODE], profile)
    assert case.best is not None and case.best.by_model
    assert case.best.expected == pytest.approx(planned().candidates[0].expected)


def test_cuts_say_what_each_model_has():
    cuts = Cuts(((SLOW, Cut(2, 100, "mps")), (FAST, Cut(4, 100, "mps"))))
    assert cuts.backend == "mps" and cuts.of(FAST) == Cut(4, 100, "mps") and not cuts.share_cores
    assert str(cuts) == "2 x 100 / 4 x 100 by mps"
    assert cuts.described == f"2 x 100 environments on each {SLOW} and 4 x 100 environments on each {FAST} by mps"
