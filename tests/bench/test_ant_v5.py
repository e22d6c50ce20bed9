"""Against gymnasium's own Ant-v5: the same states and actions, one step of both."""

from types import SimpleNamespace

import gymnasium
import mujoco
import numpy as np
import pytest
import torch

from gmi_drl.bench import ant_v5
from gmi_drl.bench.ant_v5 import ANT_V5, ant_v5_mjcf, make_ant_v5
from gmi_drl.errors import MachineError
from gmi_drl.sim import NativeSim
from gmi_drl.tasks import SimTask

EPISODES, STEPS = 8, 40
STATE = mujoco.mjtState.mjSTATE_INTEGRATION


def state_of(env):
    row = np.empty(mujoco.mj_stateSize(env.model, STATE))
    mujoco.mj_getState(env.model, env.data, row, STATE)
    return row


def play_gymnasium():
    """Transitions of random actions, also after a fall: columns of what was before and of what gymnasium made of it."""
    env, random, rows = gymnasium.make("Ant-v5").unwrapped, np.random.default_rng(0), []
    for episode in range(EPISODES):
        env.reset(seed=episode)
        for _ in range(STEPS):
            row = {"state": state_of(env), "qpos": env.data.qpos.copy(), "qvel": env.data.qvel.copy()}
            row["action"] = random.uniform(-1, 1, 8).astype(np.float32)
            row["obs"], row["reward"], row["terminated"], _, info = env.step(row["action"])
            row |= {"next_qpos": env.data.qpos.copy(), "next_qvel": env.data.qvel.copy(), "ctrl": info["reward_ctrl"]}
            rows.append(row)
    return SimpleNamespace(**{name: torch.tensor(np.array([row[name] for row in rows])) for name in rows[0]})


@pytest.fixture(scope="module")
def theirs():
    return play_gymnasium()


@pytest.fixture(scope="module")
def ours(theirs):
    sim = NativeSim(ant_v5_mjcf(), len(theirs.state), substeps=ANT_V5.substeps, fields=ANT_V5.fields)
    task = SimTask(ANT_V5, sim, seed=0)
    forces = torch.zeros(len(theirs.state), 14, 6)
    sim.load_state_dict({"state": theirs.state, "qpos": theirs.qpos, "qvel": theirs.qvel, "cfrc_ext": forces})
    ends = {}
    task_step = sim.step

    def step_and_look(ctrl):
        task_step(ctrl)
        ends.update(qpos=sim.get("qpos").clone(), qvel=sim.get("qvel").clone())

    sim.step = step_and_look
    _, reward, terminated, _, info = task.step(theirs.action)
    return SimpleNamespace(reward=reward, terminated=terminated, obs=info["final_obs"], bad=info["bad"], **ends)


def test_the_next_state_is_gymnasiums_to_the_last_bit_of_float32(theirs, ours):
    assert not ours.bad.any()
    assert torch.equal(ours.qpos, theirs.next_qpos.float())
    assert torch.equal(ours.qvel, theirs.next_qvel.float())


def test_observations_are_gymnasiums_and_contact_forces_nearly_always(theirs, ours):
    assert torch.equal(ours.obs[:, :27], theirs.obs[:, :27].float())
    difference = (ours.obs[:, 27:] - theirs.obs[:, 27:]).abs()
    touching = theirs.obs[:, 27:] != 0
    assert touching.float().mean() > 0.01
    assert difference[~touching].mean() < 0.005
    assert difference[touching].mean() < 0.15
    assert difference[touching].median() < 0.01


def test_rewards_and_ends_are_gymnasiums(theirs, ours):
    assert torch.equal(ours.terminated, theirs.terminated)
    assert ours.terminated.any() and not ours.terminated.all()
    contact = (0.0005 * ours.obs[:, 27:].square()).sum(1)
    velocity = (theirs.next_qpos - theirs.qpos)[:, 0] / 0.05
    expected = velocity + ~theirs.terminated + theirs.ctrl - contact
    torch.testing.assert_close(ours.reward.double(), expected, atol=1e-4, rtol=0)
    assert (ours.reward - theirs.reward).abs().max() < 0.15
    assert (ours.reward - theirs.reward).abs().mean() < 0.01


def test_first_states_are_spread_as_gymnasiums():
    noise = 2 * torch.rand(4000, ANT_V5.reset_noise, generator=torch.Generator().manual_seed(0)) - 1
    first = ANT_V5.reset_state(noise)
    env = gymnasium.make("Ant-v5").unwrapped
    centre = torch.tensor(env.init_qpos, dtype=torch.float32)
    assert ((first["qpos"] - centre).abs() <= 0.1 + 1e-6).all()
    torch.testing.assert_close(first["qpos"].mean(0), centre, atol=0.01, rtol=0)
    torch.testing.assert_close(first["qpos"].std(0), torch.full((15,), 0.1 / 3**0.5), atol=0.005, rtol=0)
    torch.testing.assert_close(first["qvel"].std(0), torch.full((14,), 0.1), atol=0.01, rtol=0)


def test_new_episodes_begin_without_contact_forces_as_gymnasiums():
    assert (make_ant_v5(200, seed=0).obs[:, 27:] == 0).all()


def test_forces_come_from_the_engine_whatever_world_was_computed_before():
    """Without a sensor that makes MuJoCo compute cfrc_ext, a world shows what another has left behind."""
    task, alone = make_ant_v5(3, seed=1), make_ant_v5(3, seed=1, threads=3)
    for _ in range(30):
        obs = task.step(torch.zeros(3, 8))[0]
        same = alone.step(torch.zeros(3, 8))[0]
    assert torch.equal(obs, same)
    assert obs[:, 27:].abs().max() == 1


def test_without_gymnasium_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setattr(ant_v5, "find_spec", lambda name: None)
    with pytest.raises(MachineError, match=r"gmi-drl\[gymnasium\]"):
        ant_v5_mjcf()
