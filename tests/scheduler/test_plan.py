import pytest

from gmi_drl.errors import NoFeasiblePlanError, UsageError
from gmi_drl.files import dump_yaml, parse
from gmi_drl.hardware import Cpu, Gpus, Node
from gmi_drl.layout import Layout
from gmi_drl.profile import Profile
from gmi_drl.scheduler import plan, plan_measured
from gmi_drl.workload import TASK_SPECS

NODE = Node(name="n", cpu=Cpu(cores=2, memory_gib=8))


def test_a_plan_without_a_profile_says_that_nothing_was_measured():
    layout = plan(TASK_SPECS["ant"], NODE, num_env=64)
    assert layout.reduction == "MPR-shm" and layout.groups == {"trainers": (0, 1)} and layout.num_env == 128
    assert (
        layout.projection is not None and not layout.projection.measured and layout.projection.steps_per_second is None
    )
    assert "nothing was measured" in layout.reasons[0]
    assert "nothing was measured" in dump_yaml(layout)


def test_other_processors_reduce_by_gloo():
    arm = Node(name="n", cpu=Cpu(cores=2, memory_gib=8, architecture="aarch64"))
    assert plan(TASK_SPECS["ant"], arm, num_env=64).reduction == "MPR-gloo"


def test_one_gmi_reduces_with_nobody():
    layout = plan(TASK_SPECS["ant"], NODE, num_env=64, gmis_per_device=1)
    assert layout.reduction == "none" and [gmi.cores for gmi in layout.gmis] == [(0, 1)]
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
        Profile, {"schema": "gmi-drl/profile/1", "task": task, "algo": "ppo", "node": "a100", "points": rows}, "profile"
    )


def test_the_best_measured_point_becomes_the_layout():
    points = [
        (1, 4096, 100_000.0, 10**9),
        (1, 8192, 140_000.0, 2 * 10**9),
        (4, 2048, 60_000.0, 10**9),
        (4, 4096, 0.0, 0),
    ]
    layout = plan_measured(TASK_SPECS["ant"], DGX, profile(*points))
    assert len(layout.gmis) == 32 and layout.num_env == 32 * 2048 and {len(gmi.cores) for gmi in layout.gmis} == {4}
    assert layout.projection.measured and layout.projection.steps_per_second == 8 * 4 * 60_000
    assert "1.71x one GMI per device at its best" in " ".join(layout.reasons)


def test_the_plan_says_when_one_gmi_is_best():
    layout = plan_measured(TASK_SPECS["ant"], DGX, profile((1, 4096, 100_000.0, 10**9), (4, 2048, 20_000.0, 10**9)))
    assert len(layout.gmis) == 8 and layout.reduction == "MPR-shm"
    assert "one GMI per device is best here" in " ".join(layout.reasons)


def test_a_plan_without_solo_does_not_praise_itself():
    layout = plan_measured(TASK_SPECS["ant"], DGX, profile((4, 2048, 20_000.0, 10**9)))
    assert "one GMI per device was not measured" in " ".join(layout.reasons)


@pytest.mark.parametrize(
    ("node", "points", "error", "message"),
    [
        (DGX, [(1, 128, 0.0, 0)], NoFeasiblePlanError, "1 points, 0 of them runnable"),
        (NODE, [(3, 128, 5.0, 1)], NoFeasiblePlanError, "none with at most 2 GMIs per device"),
    ],
)
def test_nothing_that_runs_is_no_plan(node, points, error, message):
    with pytest.raises(error, match=message):
        plan_measured(TASK_SPECS["ant"], node, profile(*points))


def test_the_profile_of_another_task_is_refused():
    with pytest.raises(UsageError, match="of task humanoid, not of ant"):
        plan_measured(TASK_SPECS["ant"], DGX, profile((1, 128, 5.0, 1), task="humanoid"))
