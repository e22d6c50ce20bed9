import subprocess
import sys

import gymnasium
import pytest
import torch

from gmi_drl.config.run_config import WarpRoom
from gmi_drl.errors import MachineError, UsageError
from gmi_drl.tasks import make
from gmi_drl.tasks.mujoco_v5 import MUJOCO_TASKS, model
from gmi_drl.tasks.mujoco_v5.model import gymnasium_mjcf
from gmi_drl.workload import MUJOCO_SPECS

FILES = ["ant.xml", "half_cheetah.xml", "hopper.xml", "humanoid.xml", "walker2d_v5.xml"]


def test_there_are_five():
    assert [definition.spec for definition in MUJOCO_TASKS] == list(MUJOCO_SPECS.values())


@pytest.mark.parametrize("name", MUJOCO_SPECS)
def test_the_number_of_threads_changes_no_bit(name):
    torch.set_num_threads(1)
    one, two = make(name, num_env=3, seed=1), make(name, num_env=3, seed=1, threads=2)
    generator = torch.Generator().manual_seed(0)
    for _ in range(30):
        action = 2 * torch.rand(3, one.spec.action.size, generator=generator) - 1
        ours, same = one.step(action), two.step(action)
        assert torch.equal(ours[0], same[0]) and torch.equal(ours[1], same[1])


def test_actions_beyond_the_range_cost_what_its_edge_costs():
    task, same = make("mujoco:Ant-v5", num_env=1), make("mujoco:Ant-v5", num_env=1)
    reward = task.step(torch.full((1, 8), 3.0))[1]
    assert torch.equal(reward, same.step(torch.ones(1, 8))[1])
    theirs = gymnasium.make("Ant-v5").unwrapped
    assert theirs.control_cost(torch.full((8,), 3.0).numpy()) > theirs.control_cost(torch.ones(8).numpy())


def test_an_environment_with_nan_ends_as_bad_and_the_other_goes_on():
    task = make("mujoco:Humanoid-v5", num_env=2)
    action = torch.zeros(2, 17)
    action[0, 3] = float("nan")
    obs, reward, _, truncated, info = task.step(action)
    assert info["bad"].tolist() == truncated.tolist() == [True, False]
    assert obs.isfinite().all() and reward[0] == 0 and reward[1] != 0
    assert not task.step(torch.zeros(2, 17))[4]["bad"].any()


@pytest.mark.parametrize("more", [{"physics": "warp"}, {"room": WarpRoom(njmax=100)}])
def test_warp_is_refused(more):
    with pytest.raises(UsageError, match=r"mujoco:Ant-v5 equals gymnasium's within.*leave physics and warp out"):
        make("mujoco:Ant-v5", num_env=1, **more)


def test_without_gymnasium_the_error_names_the_extra(monkeypatch):
    monkeypatch.setattr(model, "find_spec", lambda name: None)
    with pytest.raises(MachineError, match=r"gmi-drl\[gymnasium\]"):
        make("mujoco:Hopper-v5", num_env=1)


def test_a_gymnasium_without_the_model_is_named():
    with pytest.raises(MachineError, match=r"assets/ant_v9.xml.*too old or too new"):
        gymnasium_mjcf("ant_v9.xml")


def test_warnings_about_a_model_leave_no_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run = subprocess.run(
        [sys.executable, "-c", "from gmi_drl.tasks import make; make('mujoco:HalfCheetah-v5', num_env=1)"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "settotalmass" in run.stderr and run.stdout == ""
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("file", FILES)
def test_contacts_are_named_where_only_the_floor_is_met(file):
    names_pairs = "<pair " in gymnasium_mjcf(file)
    assert names_pairs == (file not in ("hopper.xml", "humanoid.xml"))
