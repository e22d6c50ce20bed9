from dataclasses import replace

import pytest

from gmi_drl.errors import NoFeasiblePlanError
from gmi_drl.files import parse
from gmi_drl.hardware.node import Cpu, Gpus, Node
from gmi_drl.layout.cut import Cut
from gmi_drl.scheduler import grid_of, num_envs_of, profile_grid, search_grid, with_caps
from gmi_drl.scheduler.exploration import GPU_NUM_ENVS, NUM_ENVS
from gmi_drl.scheduler.grid import otherwise_capped
from gmi_drl.scheduler.profile import Profile
from gmi_drl.workload import TASK_SPECS
from gmi_drl.workload.spaces import image

SMALL = Node(name="small", cpu=Cpu(cores=4, memory_gib=8))
LARGE = Node(name="large", gpus=Gpus(model="X", count=2), cpu=Cpu(cores=64, memory_gib=8))


def test_the_grid_is_algorithm_2s_with_solo_first():
    assert search_grid(SMALL, 16) == grid_of(dict.fromkeys((1, 4, 3, 2), NUM_ENVS))
    assert num_envs_of(SMALL) == NUM_ENVS and (NUM_ENVS[0], NUM_ENVS[-1]) == (128, 16384)


def test_on_a_gpu_powers_of_two_come_first_and_more_environments_are_tried():
    assert search_grid(LARGE, 16) == grid_of(dict.fromkeys((1, 2, 4, 8, 3, 5, 6, 7, 9, 10), GPU_NUM_ENVS))
    assert num_envs_of(LARGE) == GPU_NUM_ENVS and (min(GPU_NUM_ENVS), max(GPU_NUM_ENVS)) == (256, 65536)
    few = LARGE.model_copy(update={"cpu": Cpu(cores=6, memory_gib=8)})
    assert list(dict.fromkeys(cut.gmis_per_gpu for cut in search_grid(few, 16))) == [1, 2, 3]


def test_where_cores_simulate_beside_a_gpu_the_numbers_are_those_of_cores():
    ant, stepped = TASK_SPECS["ant"], replace(TASK_SPECS["ant"], name="gymnasium:Ant-v5")
    assert num_envs_of(LARGE, ant, "warp") == GPU_NUM_ENVS
    assert num_envs_of(LARGE, ant, "native") == num_envs_of(LARGE, stepped) == NUM_ENVS
    assert {cut.num_env for cut in search_grid(LARGE, 16, task=ant, physics="native")} == {*NUM_ENVS}


def test_cuts_that_can_be_capped_are_looked_at_capped_too_behind_the_others():
    plain = grid_of({1: (8,), 2: (8,)})
    assert with_caps(plain) == plain
    by_mps = grid_of({1: (8,), 2: (8,)}, "mps")
    assert with_caps(by_mps) == (*by_mps, Cut(2, 8, "mps", capped=True))
    assert otherwise_capped(Cut(2, 8, "mps", capped=True)) == (Cut(2, 8, "mps"),)


def test_wishes_restrict_it():
    assert search_grid(SMALL, 16, gmis_per_gpu=3) == grid_of({3: NUM_ENVS})
    assert search_grid(SMALL, 16, gmis_per_gpu=2, num_env=100, backends=["auto"]) == (Cut(2, 100, "auto"),)
    with pytest.raises(NoFeasiblePlanError, match="5 GMIs per device need 5 cores each, small has 4"):
        search_grid(SMALL, 16, gmis_per_gpu=5)


def test_kept_samples_are_of_as_many_environments_as_a_gmi_can_have():
    pairs = replace(TASK_SPECS["ant"], agents=2)
    assert search_grid(SMALL, 16, keep_batch=96, task=pairs) == (Cut(1, 6), Cut(3, 2))
    with pytest.raises(NoFeasiblePlanError, match="samples per update are not 16 steps"):
        search_grid(SMALL, 16, keep_batch=16 * 12 * 10**8)


def test_kept_samples_per_update_give_each_size_one_number():
    without_3 = (Cut(1, 512), Cut(4, 128), Cut(2, 256))  # which do not share 512 evenly
    assert search_grid(SMALL, 16, keep_batch=8192) == without_3
    assert search_grid(LARGE, 16, keep_batch=8192, gmis_per_gpu=2) == (Cut(2, 128),)
    with pytest.raises(NoFeasiblePlanError, match="8190 samples per update are not 16 steps"):
        search_grid(SMALL, 16, keep_batch=8190)


def test_a_profiles_grid_is_what_the_node_can_hold():
    points = [{"gmis_per_gpu": g, "num_env": n, "runnable": True} for g, n in ((5, 64), (2, 64), (2, 32), (1, 128))]
    profile = parse(Profile, {"task": "ant", "learner": "ppo", "node": "n", "points": points}, "profile")
    assert profile_grid(profile, SMALL, 16) == (Cut(1, 128), Cut(2, 32), Cut(2, 64))
    assert profile_grid(profile, SMALL, 16, keep_batch=2048) == (Cut(1, 128), Cut(2, 64))


def test_images_have_fewer_environments_and_worlds_are_whole():
    games = replace(TASK_SPECS["ant"], observation=image(4, 84, 84))
    assert num_envs_of(SMALL, games)[:3] == (8, 16, 32)
    assert num_envs_of(SMALL, replace(TASK_SPECS["ant"], agents=3))[:2] == (129, 258)
    assert num_envs_of(SMALL, TASK_SPECS["ant"]) == num_envs_of(SMALL)
