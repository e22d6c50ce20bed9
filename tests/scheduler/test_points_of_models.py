import pytest
from measures import point

from gmi_drl.config.learners import PPOConfig
from gmi_drl.errors import NoFeasiblePlanError, UsageError
from gmi_drl.hardware.node import Cpu, Gpus, Node
from gmi_drl.layout.cut import Cut
from gmi_drl.scheduler import plan_measured, profile_grid, why_no_grid
from gmi_drl.scheduler.gpu_models import for_node
from gmi_drl.scheduler.profile import Profile, dump_profile, load_profile
from gmi_drl.workload import TASK_SPECS

A100, H200 = "NVIDIA A100-SXM4-40GB", "NVIDIA H200"


def node(*models):
    gpus = tuple(Gpus(model=model, count=1, memory_gib=40) for model in models)
    return Node(name="n", gpus=gpus or None, link="none", cpu=Cpu(cores=8, memory_gib=64))


def profile(*points):
    """`(model, GMIs, environments, speed[, memory])`; speed 0: it does not run."""
    known = [point(*rest, runnable=rest[2] > 0).model_copy(update={"model": model}) for model, *rest in points]
    return Profile(task="ant", learner="ppo", node="somewhere", points=tuple(known))


def speeds(*args):
    folded, told = for_node(*args)
    return {(known.gmis_per_gpu, known.num_env): known.steps_per_second for known in folded.points}, told


def test_each_model_takes_its_own_points():
    known = profile((A100, 1, 64, 10.0), (H200, 1, 64, 30.0), (A100, 2, 64, 8.0))
    assert speeds(known, node(A100, A100)) == ({(1, 64): 10.0, (2, 64): 8.0}, [])
    assert speeds(known, node("h200")) == ({(1, 64): 30.0}, []), "a model has several names"


def test_a_mixed_node_runs_as_its_slowest_gpu_and_needs_points_of_all():
    known = profile((A100, 1, 64, 10.0, 7), (H200, 1, 64, 30.0, 9), (A100, 2, 64, 8.0))
    folded, told = for_node(known, node(H200, A100))
    (only,) = folded.points
    assert (only.cut, only.steps_per_second, only.memory_bytes) == (Cut(1, 64), 10.0, 9)
    assert told == []


def test_what_does_not_run_on_one_model_does_not_run_on_the_node():
    folded, _ = for_node(profile((A100, 1, 64, 0.0), (H200, 1, 64, 30.0)), node(H200, A100))
    assert not folded.points[0].runnable


def test_a_model_without_points_takes_those_of_others_and_says_so():
    known = profile((A100, 1, 64, 10.0), (H200, 1, 64, 30.0))
    found, told = speeds(known, node("NVIDIA B200"))
    assert found == {(1, 64): 10.0} and told == [f"no point is of B200: those of {A100} and {H200} are used"]
    found, told = speeds(profile((H200, 1, 64, 30.0)), node(H200, A100))
    assert found == {(1, 64): 30.0} and "no point is of A100-SXM4-40GB: those of NVIDIA H200 are used" in told
    found, told = speeds(profile((A100, 1, 64, 10.0), (H200, 1, 64, 30.0)), node(A100, "NVIDIA B200"))
    assert found == {(1, 64): 10.0} and told == [f"no point is of B200: those of {A100} are used"]


def test_backends_are_compared_on_the_same_models_where_none_is_the_nodes_own():
    known = profile((A100, 1, 64, 10.0), (H200, 1, 64, 30.0), (H200, 7, 64, 20.0))
    assert speeds(known, node("H1000"))[0] == {(1, 64): 10.0}, "seven ran on the fast one only, which says nothing"


def test_cores_take_no_point_of_a_gpu():
    known, here = profile((A100, 1, 64, 10.0)), node()
    assert speeds(known, here) == ({}, [])
    grid = profile_grid(known, here, PPOConfig().horizon)
    with pytest.raises(NoFeasiblePlanError, match=r"measured on GPUs \(A100-SXM4-40GB\), and n has none"):
        plan_measured(TASK_SPECS["ant"], PPOConfig(), here, known, grid)


def test_why_a_profile_has_nothing_for_a_node_is_the_cause_with_what_there_is():
    known, horizon = profile(("", 1, 64, 10.0), ("", 4, 8, 10.0)), PPOConfig().horizon
    assert why_no_grid(known, node(A100), horizon) is None
    assert why_no_grid(known, node(A100), horizon, backend="mps") == "the profile has no point by mps, it has process"
    told = f"no point has 17 samples per update on n: there are {32 * horizon}, {64 * horizon}"
    assert why_no_grid(known, node(A100), horizon, keep_batch=17) == told
    many = profile(("", 9, 64, 10.0))
    assert "cores for 8 GMIs of each device" in why_no_grid(many, node(A100), horizon)


def test_points_that_name_no_model_hold_for_all_that_have_none():
    assert speeds(profile(("", 1, 64, 5.0)), node(A100, H200)) == ({(1, 64): 5.0}, [])
    assert speeds(profile(("", 1, 64, 5.0), (H200, 1, 64, 30.0)), node(H200))[0] == {(1, 64): 30.0}
    assert speeds(profile((H200, 1, 64, 30.0), ("", 1, 64, 5.0)), node(H200, A100))[0] == {(1, 64): 5.0}


def test_a_plan_tells_what_it_takes_for_a_model():
    known, here = profile((A100, 1, 64, 10.0), (A100, 2, 64, 8.0)), node(H200, A100)
    found = plan_measured(TASK_SPECS["ant"], PPOConfig(), here, known, profile_grid(known, here, PPOConfig().horizon))
    assert any("no point is of H200" in line for line in found.layout.reasons)
    assert any("its GPUs are unlike" in line for line in found.layout.reasons)


def test_a_profile_holds_a_cut_once_for_each_model(tmp_path):
    known = profile((A100, 1, 64, 10.0), (H200, 1, 64, 30.0))
    (tmp_path / "p.json").write_text(dump_profile(known))
    assert load_profile(tmp_path / "p.json") == known
    (tmp_path / "p.json").write_text(dump_profile(known.model_copy(update={"points": known.points[:1] * 2})))
    with pytest.raises(UsageError, match="given twice: 1 x 64"):
        load_profile(tmp_path / "p.json")
