import subprocess
import sys

import pytest
import torch

from gmi_drl.config.run_config import WarpRoom
from gmi_drl.config.task_names import find_task
from gmi_drl.errors import UsageError
from gmi_drl.tasks import TASKS, make
from gmi_drl.workload import MUJOCO_SPECS, TASK_SPECS


def test_every_task_keeps_its_promised_sizes():
    torch.set_num_threads(1)
    specs = TASK_SPECS | MUJOCO_SPECS
    assert set(TASKS) == set(specs)
    for name, spec in specs.items():
        task = make(name, num_env=3)
        assert (task.spec, task.num_env, task.device) == (spec, 3, torch.device("cpu"))
        assert task.obs.shape == (3, spec.observation.size)
        obs, reward, terminated, truncated, info = task.step(torch.zeros(3, spec.action.size))
        assert (obs.shape, info["final_obs"].shape) == ((3, spec.observation.size), (3, spec.observation.size))
        assert (obs.dtype, reward.dtype, info["final_obs"].dtype) == (torch.float32,) * 3
        assert (terminated.dtype, truncated.dtype, info["bad"].dtype) == (torch.bool,) * 3
        assert reward.shape == terminated.shape == truncated.shape == info["bad"].shape == (3,)
        task.close()


def test_the_papers_abbreviation_is_a_name():
    for name, spec in TASK_SPECS.items():
        assert find_task(spec.alias) == find_task(spec.alias.lower()) == find_task(name) == spec
    assert make("Ant", num_env=1).spec.name == make("AT", num_env=1).spec.name == "ant"


def test_nothing_of_a_simulator_is_imported_before_a_task_is_made():
    code = (
        "import sys, gmi_drl.tasks; print([name for name in ('mujoco', 'gymnasium', 'envpool') if name in sys.modules])"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"


def test_an_unknown_task_lists_what_exists():
    with pytest.raises(UsageError, match="no task 'antt'; did you mean 'ant'"):
        make("antt")
    with pytest.raises(UsageError, match=r"no task 'walk-the-dog'; known: .*ant"):
        make("walk-the-dog")


def test_room_for_warp_is_refused_where_warp_is_not_used():
    with pytest.raises(UsageError, match="the physics here is native"):
        make("ant", num_env=1, room=WarpRoom(njmax=100))
    with pytest.raises(UsageError, match="brings its own simulator"):
        make("gymnasium:Pendulum-v1", num_env=1, room=WarpRoom(njmax=100))
