import signal
import sys

import gymnasium
import pytest
from fakes import fake_isaaclab, fake_isaaclab_env

from gmi_drl.errors import UsageError
from gmi_drl.tasks import make
from gmi_drl.tasks.adapters import isaaclab

TASK = "Isaac-Fake-Direct-v0"


@pytest.fixture(params=[2, 3])
def lab(request, monkeypatch):
    """What was called in the fake of Isaac Lab 2 or 3, which registers one task with gymnasium."""
    modules, calls = fake_isaaclab(request.param)
    for name, module in modules.items():
        monkeypatch.setitem(sys.modules, name, module)

    def make_env(cfg):
        calls.append(f"made {cfg.num_envs} with seed {cfg.seed}")
        return fake_isaaclab_env(cfg.num_envs, device=cfg.device)

    monkeypatch.setattr(isaaclab, "_LAUNCHED", [])
    monkeypatch.setitem(gymnasium.registry, TASK, gymnasium.envs.registration.EnvSpec(TASK, make_env))
    monkeypatch.setattr(gymnasium, "make", lambda name, cfg: make_env(cfg))  # the fake is no gymnasium.Env
    return request.param, calls


def test_the_simulation_is_started_once_and_in_the_order_of_the_version(lab):
    version, calls = lab
    for num_env in (3, 4):
        task = make(f"isaaclab:{TASK}", num_env=num_env, seed=7)
        assert task.num_env == num_env and task.spec.name == f"isaaclab:{TASK}"
    first = (
        ["Isaac Sim on cpu", f"configured {TASK}"] if version == 2 else [f"configured {TASK}", "launched for 3 on cpu"]
    )
    assert calls == [*first, "made 3 with seed 7", f"configured {TASK}", "made 4 with seed 7"]


def test_the_simulation_takes_no_signals(lab):
    before = signal.getsignal(signal.SIGTERM)
    make(f"isaaclab:{TASK}")
    assert signal.getsignal(signal.SIGTERM) is before


def test_the_error_of_an_unknown_task_suggests_the_nearest_name(lab):
    with pytest.raises(UsageError, match=f"Isaac Lab has no 'Isaac-Fake-v0'; did you mean '{TASK}'"):
        make("isaaclab:Isaac-Fake-v0")
