import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from toys import install_backend

from gmi_drl.config.learners import PPOConfig
from gmi_drl.errors import NoFeasiblePlanError, UsageError
from gmi_drl.files import dump_yaml, parse
from gmi_drl.hardware.node import Cpu, Gpus, Node
from gmi_drl.layout.cut import Cut
from gmi_drl.layout.layout import GmiGroup, Layout
from gmi_drl.scheduler import plan, plan_measured, profile_grid
from gmi_drl.scheduler.candidates import predictor, unfit
from gmi_drl.scheduler.profile import Profile
from gmi_drl.workload import TASK_SPECS

PPO = PPOConfig()
NODE = Node(name="n", cpu=Cpu(cores=2, memory_gib=8))


def test_a_plan_without_a_profile_says_that_nothing_was_measured():
    layout = plan(TASK_SPECS["ant"], NODE, num_env=64)
    assert layout.groups == {"trainers": GmiGroup(members=(0, 1), reduction="MPR-shm")} and layout.num_env == 128
    assert (
        layout.projection is not None and not layout.projection.measured and layout.projection.steps_per_second is None
    )
    assert "nothing was measured" in layout.reasons[0]
    assert "nothing was measured" in dump_yaml(layout)


def test_other_processors_reduce_by_gloo():
    arm = Node(name="n", cpu=Cpu(cores=2, memory_gib=8, architecture="riscv64"))
    assert plan(TASK_SPECS["ant"], arm, num_env=64).groups["trainers"].reduction == "MPR-gloo"


def test_one_gmi_reduces_with_nobody():
    layout = plan(TASK_SPECS["ant"], NODE, num_env=64, gmis_per_gpu=1)
    assert layout.groups["trainers"].reduction == "none" and [gmi.cores for gmi in layout.gmis] == [(0, 1)]
    assert parse(Layout, layout.model_dump(), "again") == layout


DGX = Node(
    name="dgx-a100", gpus=Gpus(model="A100-SXM4-40GB", count=8), link="nvswitch", cpu=Cpu(cores=128, memory_gib=1000)
)


def profile(*points, task="ant"):
    rows = [
        {"gmis_per_gpu": g, "num_env": n, "runnable": s > 0, "steps_per_second": s, "memory_bytes": m}
        for g, n, s, m in points
    ]
    return parse(
        Profile,
        {"schema": "gmi-drl/profile/2", "task": task, "learner": "ppo", "node": "a100", "points": rows},
        "profile",
    )


def measured(node, known, keep_batch=None, **more):
    grid = profile_grid(known, node, PPO.horizon, keep_batch)
    return plan_measured(TASK_SPECS["ant"], PPO, node, known, grid, **more)


def test_the_best_measured_point_becomes_the_layout():
    points = [
        (1, 4096, 100_000.0, 10**9),
        (1, 8192, 140_000.0, 2 * 10**9),
        (4, 2048, 60_000.0, 10**9),
        (4, 4096, 0.0, 0),
    ]
    chosen = measured(DGX, profile(*points))
    layout = chosen.layout
    assert len(layout.gmis) == 32 and layout.num_env == 32 * 2048 and {len(gmi.cores) for gmi in layout.gmis} == {4}
    assert layout.projection.measured and layout.projection.steps_per_second == chosen.candidates[0].expected
    assert chosen.candidates[0].projected == 8 * 4 * 60_000 > chosen.candidates[0].expected > 0.99 * 8 * 4 * 60_000
    assert chosen.samples_per_update(chosen.candidates[0]) == 32 * 2048 * PPO.horizon
    assert re.search(r"1\.7\dx the best of one GMI per device that was measured", " ".join(layout.reasons))


def test_search_continues_past_one_dip():
    points = [(1, 128, 10_000.0, 0), (1, 256, 9_990.0, 0), (1, 512, 16_000.0, 0), (1, 1024, 22_000.0, 0)]
    chosen = measured(NODE, profile(*points))
    assert chosen.layout.gmis[0].num_env == 1024 and len(chosen.candidates) == 4
    assert chosen.layout.reasons[0].startswith("chosen from 4 runnable points of a100: 1 x 1024 environments")


def test_points_behind_one_that_failed_are_candidates():
    points = profile((1, 128, 100.0, 1), (1, 256, 0.0, 0), (1, 512, 0.0, 0), (1, 1024, 200.0, 1))
    chosen = measured(NODE, points)
    assert chosen.layout.gmis[0].num_env == 1024 and [point.num_env for point in chosen.infeasible] == [256, 512]


@given(
    st.dictionaries(
        st.tuples(st.sampled_from([1, 2, 4, 8]), st.sampled_from([128, 256, 512, 1024])),
        st.tuples(st.floats(1, 1e6), st.integers(0, 20 * 2**30)),
        min_size=1,
    )
)
def test_no_point_that_fits_is_expected_to_be_faster_than_the_chosen_one(table):
    node = DGX.model_copy(update={"gpus": Gpus(model="A100", count=8, memory_gib=40)})
    known = profile(*((*place, *what) for place, what in table.items()))
    fitting = [point for point in known.points if unfit(point, node) is None]
    if not fitting:
        with pytest.raises(NoFeasiblePlanError):
            measured(node, known)
        return
    chosen = measured(node, known)
    best = max(map(predictor(TASK_SPECS["ant"], PPO, node), fitting), key=lambda candidate: candidate.expected)
    assert chosen.candidates[0].expected == best.expected == chosen.layout.projection.steps_per_second
    assert len(chosen.candidates) == len(fitting) and len(chosen.infeasible) == len(table) - len(fitting)


def test_gmis_that_were_measured_alone_have_their_communication_still_to_pay():
    """On a CPU; on a GPU those of a device were measured together."""
    gpu = Node(name="g", gpus=Gpus(model="X", count=1), cpu=Cpu(cores=2, memory_gib=8))
    for node, pays in ((NODE, True), (gpu, False)):
        predict = predictor(TASK_SPECS["ant"], PPO, node)
        one, two = (predict(profile((size, 512, 1000.0, 10**9)).points[0]) for size in (1, 2))
        assert one.expected == one.projected == 1000.0
        assert (two.expected < two.projected == 2000.0) == pays and two.expected <= 2000.0


def test_a_bandwidth_that_nobody_has_measured_between_gpus_is_told():
    """Where it is reckoned with: GMIs of one GPU are measured together."""
    one = DGX.model_copy(update={"gpus": Gpus(model="X", count=1)})
    for node, is_told in ((DGX, True), (one, False), (NODE, False)):
        reasons = measured(node, profile((1, 512, 1000.0, 10**9))).layout.reasons
        assert any("no speed between GMIs of GPUs is known" in reason for reason in reasons) == is_told


def test_the_plan_says_when_one_gmi_is_best():
    layout = measured(DGX, profile((1, 4096, 100_000.0, 10**9), (4, 2048, 20_000.0, 10**9))).layout
    assert len(layout.gmis) == 8 and layout.groups["trainers"].reduction == "MPR-shm"
    assert "one GMI per device is best here" in " ".join(layout.reasons)


def test_a_plan_without_solo_does_not_praise_itself():
    layout = measured(DGX, profile((4, 2048, 20_000.0, 10**9))).layout
    assert "one GMI per device was not measured" in " ".join(layout.reasons)


@pytest.mark.parametrize(
    ("node", "points", "error", "message"),
    [
        (DGX, [(1, 128, 0.0, 0)], NoFeasiblePlanError, "1 point, 0 of them runnable"),
        (NODE, [(3, 128, 5.0, 1)], NoFeasiblePlanError, "at most 2 GMIs per device"),
    ],
)
def test_nothing_that_runs_is_no_plan(node, points, error, message):
    with pytest.raises(error, match=message):
        measured(node, profile(*points))


def test_no_plan_tells_of_a_few_points_why_they_do_not_run():
    with pytest.raises(
        NoFeasiblePlanError, match=r"1 x 4 environments: did not run when it was measured\n  and 3 more$"
    ):
        measured(NODE, profile(*((1, num_env, 0.0, 0) for num_env in range(1, 8))))


def test_no_plan_says_what_was_not_measured():
    with pytest.raises(NoFeasiblePlanError, match="2 points not measured for want of time: give more with --budget"):
        plan_measured(
            TASK_SPECS["ant"], PPO, NODE, profile((1, 128, 0.0, 0)), [Cut(1, 128)], unmeasured=[Cut(1, 64), Cut(2, 64)]
        )


def test_the_profile_of_another_task_is_refused():
    with pytest.raises(
        UsageError, match="of task humanoid, not of ant: measure that one, or plan with --task humanoid"
    ):
        measured(DGX, profile((1, 128, 5.0, 1), task="humanoid"))


def test_what_does_not_fit_the_memory_is_refused_with_the_numbers():
    small = DGX.model_copy(update={"gpus": Gpus(model="A100", count=8, memory_gib=4)})
    points = [(1, 4096, 100_000.0, 2**30), (4, 4096, 90_000.0, 2**30)]
    chosen = measured(small, profile(*points))
    assert (
        len(chosen.layout.gmis) == 8 and "4 GMIs would take 4.0 GiB of a GPU's 4.0 GiB" in chosen.infeasible[0].reason
    )
    with pytest.raises(
        NoFeasiblePlanError, match=r"8 GMIs would take 64.0 GiB of the host's 8.0 GiB|take .* of the host"
    ):
        measured(NODE, profile((2, 64, 10.0, 8 * 2**30)))


def test_kept_samples_per_update_leave_only_what_has_them():
    points = profile((1, 4096, 100_000.0, 1), (2, 2048, 70_000.0, 1), (4, 2048, 60_000.0, 1))
    chosen = measured(DGX, points, keep_batch=8 * 4096 * PPO.horizon)
    assert {chosen.samples_per_update(candidate) for candidate in chosen.candidates} == {8 * 4096 * PPO.horizon}
    assert chosen.layout.gmis[0].num_env == 2048 and len(chosen.layout.gmis) == 16


def test_what_ran_together_goes_before_what_is_expected():
    points = profile((2, 256, 90.0, 1), (1, 512, 120.0, 1), (1, 1024, 130.0, 1))
    chosen = measured(NODE, points, confirmed={Cut(2, 256): 110.0, Cut(1, 512): 125.0})
    assert [candidate.confirmed for candidate in chosen.candidates] == [125.0, 110.0, None]
    assert len(chosen.layout.gmis) == 1 and chosen.layout.num_env == 512
    text = " ".join(chosen.layout.reasons)
    assert "one GMI per device is best here" in text and "confirmed: it was run as it is" in text


def test_solo_that_wins_is_told_even_when_it_was_not_asked_for():
    points = profile((2, 256, 90.0, 1), (1, 512, 120.0, 1))
    only = plan_measured(
        TASK_SPECS["ant"], PPO, NODE, points, [Cut(2, 256)], confirmed={Cut(2, 256): 110.0, Cut(1, 512): 125.0}
    )
    assert len(only.layout.gmis) == 2 and "cutting does not pay here, but was asked for" in " ".join(
        only.layout.reasons
    )


def test_each_backend_is_planned_by_its_own_points(install):
    install_backend(install)
    points = profile((1, 512, 300.0, 2**20), (1, 256, 200.0, 2**19)).points
    others = [point.model_copy(update={"backend": "toy", "steps_per_second": 100.0}) for point in points]
    known = profile().model_copy(update={"points": (*points, *others)})
    chosen = plan_measured(TASK_SPECS["ant"], PPO, NODE, known, [Cut(1, 512, "toy"), Cut(1, 256, "toy")])
    assert chosen.layout.backend == "toy" and {one.point.backend for one in chosen.candidates} == {"toy"}
    assert chosen.layout.projection.steps_per_second == 100.0
    best = measured(NODE, known)
    assert best.layout.backend == "process" and len(best.candidates) == 4 and best.memory[1](512) == 2**20
    text = " ".join(best.layout.reasons)
    assert "backend process:" in text and "3.00x the best by toy (1 x" in text
    assert "the best by" not in " ".join(chosen.layout.reasons), "there was nothing to compare with"


def test_an_even_cut_is_by_the_backend_that_is_asked_for(install):
    install_backend(install)
    assert [plan(TASK_SPECS["ant"], NODE, num_env=8, **more).backend for more in ({}, {"backend": "toy"})] == [
        "process",
        "toy",
    ]


def test_what_there_was_no_time_for_is_listed():
    chosen = measured(NODE, profile((1, 512, 120.0, 1)), unmeasured=[Cut(2, 256), Cut(2, 512)])
    assert "for want of time (GMIs per device x environments): 2 x 256, 512" in " ".join(chosen.layout.reasons)
