"""Plans by mig and mig-ci, for machines that are described."""

import pytest

from gmi_drl.config.run_config import default_config
from gmi_drl.errors import NoFeasiblePlanError
from gmi_drl.hardware.node import Cpu, Gpus, Node
from gmi_drl.layout.cut import Cut
from gmi_drl.scheduler import plan, plan_measured, search_grid
from gmi_drl.scheduler.profile import Profile, ProfilePoint
from gmi_drl.units import GIB
from gmi_drl.workload import TASK_SPECS

ANT = TASK_SPECS["ant"]
PPO = default_config(ANT).learner


def node(model="A100-SXM4-40GB", count=2, **more):
    return Node(name="elsewhere", gpus=Gpus(model=model, count=count), cpu=Cpu(cores=32, memory_gib=256), **more)


def measured(*points):
    fixed = {"num_env": 1024, "steps_per_second": 1000.0, "runnable": True}
    some = [ProfilePoint(gmis_per_gpu=k, memory_bytes=gib * GIB, backend=by, **fixed) for k, gib, by in points]
    return Profile(node="x", task="ant", learner="ppo", points=tuple(some))


def test_an_even_plan_says_what_mig_makes_of_a_gpu():
    layout = plan(ANT, node(), num_env=64, gmis_per_gpu=2, backend="mig")
    assert layout.backend == "mig" and len(layout.gmis) == 4 and {gmi.mig_profile for gmi in layout.gmis} == {None}
    said = " ".join(layout.reasons)
    assert "mig can make 2 x 3g.20gb, 42 SMs and 19.5 GiB each of each A100-SXM4-40GB (--apply-mig)" in said
    parts = plan(ANT, node(), num_env=64, gmis_per_gpu=3, backend="mig-ci")
    assert "mig-ci can make 3 x 2c.7g.40gb, 39.2 GiB in common" in " ".join(parts.reasons)


@pytest.mark.parametrize("backend", ["mig", "mig-ci"])
def test_what_cannot_be_cut_is_refused_offline(backend):
    with pytest.raises(NoFeasiblePlanError, match=r"has at most 7 .*instances, not 8: ask for fewer"):
        plan(ANT, node(), num_env=64, gmis_per_gpu=8, backend=backend)
    with pytest.raises(NoFeasiblePlanError, match=r"L4 .* has no MIG: take another --backend"):
        plan(ANT, node("L4"), num_env=64, backend=backend)
    with pytest.raises(NoFeasiblePlanError, match=f"{backend}: elsewhere has no GPU"):
        plan(ANT, Node(name="elsewhere", cpu=Cpu(cores=4, memory_gib=8)), num_env=64, backend=backend)


def test_a_search_looks_at_numbers_that_can_be():
    sizes = {cut.gmis_per_gpu for cut in search_grid(node(), PPO.horizon, backends=["mig"])}
    assert sizes == set(range(1, 8))
    with pytest.raises(NoFeasiblePlanError, match="has at most 7 MIG instances"):
        search_grid(node(), PPO.horizon, gmis_per_gpu=8, backends=["mig"])
    assert max(cut.gmis_per_gpu for cut in search_grid(node(), PPO.horizon)) > 7


def test_a_point_must_fit_into_its_instance():
    profile = measured((1, 30, "mig"), (2, 20, "mig"), (4, 5, "mig"), (8, 1, "mig"))
    grid = [Cut(point.gmis_per_gpu, point.num_env, "mig") for point in profile.points]
    chosen = plan_measured(ANT, PPO, node(), profile, grid)
    assert len(chosen.layout.gmis) == 8
    why = {point.gmis_per_gpu: point.reason for point in chosen.infeasible}
    assert "more than the 19.5 GiB of a 3g.20gb" in why[2] and "at most 7 MIG instances" in why[8] and len(why) == 2


def test_gmis_of_compute_instances_share_the_memory():
    profile = measured((2, 17, "mig-ci"), (3, 17, "mig-ci"))
    grid = [Cut(point.gmis_per_gpu, point.num_env, "mig-ci") for point in profile.points]
    chosen = plan_measured(ANT, PPO, node(), profile, grid)
    assert len(chosen.layout.gmis) == 4 and [point.gmis_per_gpu for point in chosen.infeasible] == [3]


def test_a_model_that_is_in_no_catalogue_is_told_not_to_be_checked():
    unknown = Node(name="n", gpus=Gpus(model="H1000", count=1), cpu=Cpu(cores=8, memory_gib=64))
    said = " ".join(plan(TASK_SPECS["ant"], unknown, num_env=64, gmis_per_gpu=2, backend="mig").reasons)
    assert "the catalogue has no H1000" in said
