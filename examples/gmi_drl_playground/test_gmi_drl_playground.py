"""Real worlds of MuJoCo Playground: `make playground` runs these in an environment that has it."""

import json
import os
import subprocess
import sys

import pytest
import torch
from jax import numpy as jnp
from mujoco_playground import dm_control_suite
from mujoco_playground._src.dm_control_suite import cartpole

from gmi_drl.config.run_config import RunConfig
from gmi_drl.errors import MachineError, UsageError
from gmi_drl.gmi import allowed_cores
from gmi_drl.roles.seeds import seed_of
from gmi_drl.tasks import check_task, make

STEPS = 30
NARROW = 0.09
"""m; carts begin within 0.1 m of the middle, so some are soon too far from it."""
FAR = 0.15
"""m; no cart begins as far out, and one that is driven is there before its episode ends."""


class NarrowCartpole(cartpole.Balance):
    """Ends where the cart is too far out, and sees in groups, as Playground's walking robots do."""

    def __init__(self, config=None, config_overrides=None):
        super().__init__(False, False, config or narrow_config(), config_overrides)

    def reset(self, rng):
        return self._grouped(super().reset(rng))

    def step(self, state, action):
        state = super().step(state.replace(obs=state.obs["state"]), action)
        return self._grouped(state.replace(done=(jnp.abs(state.data.qpos[0]) > NARROW).astype(float)))

    def _grouped(self, state):
        return state.replace(obs={"state": state.obs, "privileged_state": jnp.zeros(9)})


class BrokenCartpole(cartpole.Balance):
    """Never ends. Where the cart is too far out, a number is NaN: of the observation to the right, else the reward."""

    def __init__(self, config=None, config_overrides=None):
        super().__init__(False, False, config or narrow_config(), config_overrides)

    def step(self, state, action):
        state = super().step(state, action)
        at = state.data.qpos[0]
        obs, reward = jnp.where(at > FAR, jnp.nan, state.obs), jnp.where(at < -FAR, jnp.nan, state.reward)
        return state.replace(obs=obs, reward=reward)


class BlindCartpole(NarrowCartpole):
    """Sees nothing that a policy gets."""

    def _grouped(self, state):
        return state.replace(obs={"pixels/view_0": jnp.zeros((8, 8))})

    def step(self, state, action):
        raise NotImplementedError


def narrow_config():
    config = cartpole.default_config()
    config.episode_length = STEPS
    return config


dm_control_suite.register_environment("NarrowCartpole", NarrowCartpole, narrow_config)
dm_control_suite.register_environment("BrokenCartpole", BrokenCartpole, narrow_config)
dm_control_suite.register_environment("BlindCartpole", BlindCartpole, narrow_config)


def narrow(num_env=6, seed=0):
    return make("playground:NarrowCartpole", num_env=num_env, seed=seed)


def test_a_task_of_playground_keeps_the_contract():
    check_task(lambda seed: make("playground:CartpoleBalance", num_env=4, seed=seed), steps=40)


def test_a_task_that_ends_and_sees_in_groups_keeps_the_contract():
    check_task(lambda seed: narrow(seed=seed), steps=40)


def test_sizes_are_the_environments():
    spec = narrow().spec
    assert (spec.name, spec.observation.size, spec.action.size) == ("playground:NarrowCartpole", 5, 1)
    assert (spec.episode_steps, spec.step_s) == (STEPS, 0.01)


def test_an_episode_that_ends_is_followed_by_a_new_one_in_the_same_step():
    task = narrow()
    action = torch.tensor([1.0, 1, 1, 0, 0, 0])[:, None]  # three are driven out, three stay
    begun, ends, time_outs = [task.obs.clone()], 0, 0
    for _ in range(3 * STEPS):
        length = task.episode_length.clone()
        obs, _, terminated, truncated, info = task.step(action)
        final_obs, ended = info["final_obs"], terminated | truncated
        assert info["valid"].all() and not info["bad"].any()
        assert torch.equal(terminated, final_obs[:, 0].abs() > NARROW)
        assert torch.equal(truncated, (length + 1 == STEPS) & ~terminated)
        assert torch.equal(obs[~ended], final_obs[~ended])
        assert (obs[ended, 0].abs() <= 0.1).all() and (obs[ended] != final_obs[ended]).any(1).all()
        begun += [obs[ended].clone()] if ended.any() else []
        ends, time_outs = ends + int(terminated.sum()), time_outs + int(truncated.sum())
    first = torch.cat(begun)
    assert ends > 3 and time_outs > 3 and len(first.unique(dim=0)) == len(first), "a world begins twice alike"
    assert ends + time_outs == len(first) - 6


@pytest.mark.parametrize("force", [1.0, -1.0])
def test_a_world_that_goes_wrong_begins_anew_and_is_learnt_from_again(force):
    task = make("playground:BrokenCartpole", num_env=2)
    bads, valids = [], []
    for _ in range(2 * STEPS):
        *_, info = task.step(torch.tensor([[force], [0.0]]))
        bads.append(info["bad"].tolist()), valids.append(info["valid"].tolist())
    assert sum(bad for bad, _ in bads) > 1 and not any(bad for _, bad in bads)
    assert [not valid for valid, _ in valids] == [bad for bad, _ in bads]


def test_steps_are_compiled_once():
    task = narrow(num_env=3)
    before = task._compiled.step._cache_size()
    for _ in range(3):
        task.step(torch.zeros(3, 1))
    task.reset()
    task.step(torch.zeros(3, 1))
    assert task._compiled.step._cache_size() == before + 1


def test_gmis_begin_otherwise_and_a_seed_alike():
    seeds = [seed_of(RunConfig(), 0, gmi, "task") for gmi in (0, 1)]
    assert not torch.equal(narrow(seed=seeds[0]).obs, narrow(seed=seeds[1]).obs)
    assert torch.equal(narrow(seed=seeds[1]).obs, narrow(seed=seeds[1]).obs)


@pytest.mark.parametrize(
    ("name", "message"),
    [("CartpoleBalanc", "did you mean 'CartpoleBalance'"), ("BlindCartpole", "observations are pixels/view_0")],
)
def test_what_cannot_be_trained_is_refused(name, message):
    with pytest.raises(UsageError, match=message):
        make(f"playground:{name}", num_env=1)


def test_a_robot_whose_model_cannot_be_got_is_told(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))  # no git there
    monkeypatch.setattr("mujoco_playground._src.mjx_env.MENAGERIE_PATH", tmp_path / "menagerie")
    with pytest.raises(MachineError, match="clones MuJoCo Menagerie"):
        make("playground:Go1JoystickFlatTerrain", num_env=1)


@pytest.mark.parametrize("gmis", [1, 2])
def test_gmis_train_with_it_by_its_name(gmis, tmp_path):
    if gmis > len(allowed_cores()):
        pytest.skip("needs two cores, one for each GMI")
    line = [sys.executable, "-c", "from gmi_drl.cli import main; main()", "train", "--run-dir", "run"]
    line += ["--task", "playground:CartpoleBalance", "--num-env", "16"]
    line += ["--gmis-per-gpu", str(gmis), "--iterations", "3"]
    claims = os.environ | {"GMI_DRL_CLAIMS": str(tmp_path / "claims")}
    run = subprocess.run(line, cwd=tmp_path, env=claims, capture_output=True, text=True, timeout=600, check=False)
    assert run.returncode == 0, run.stdout + run.stderr
    rows = [json.loads(row) for row in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    assert len([row for row in rows if "iteration" in row]) == 3, rows
