"""Every task against gymnasium's own: the same state and action, one step of both."""

from types import SimpleNamespace

import gymnasium
import numpy as np
import pytest
import torch

from gmi_drl.tasks import SimTask, make_sim
from gmi_drl.tasks.mujoco_v5 import MUJOCO_TASKS

NUM_ENV, STEPS = 4, 120
EPISODES, EPISODE_STEPS = 4, 60
CLOSE = {"rtol": 1e-6, "atol": 1e-6}

for_all = pytest.mark.parametrize("definition", MUJOCO_TASKS, ids=lambda definition: definition.spec.name)


def make_env(definition):
    return gymnasium.make(definition.spec.name.partition(":")[2]).unwrapped


def make_ours(definition, num_env):
    torch.set_num_threads(1)
    return SimTask(definition, make_sim(definition, num_env), seed=1)


def our_states(task):
    return task._sim.get("qpos").numpy(), task._sim.get("qvel").numpy()


def columns(rows):
    """A row per transition to a tensor per name."""
    return SimpleNamespace(**{name: torch.tensor(np.array([row[name] for row in rows])) for name in rows[0]})


def random_action(env, random):
    """In [-1, 1], and as gymnasium takes it."""
    action = random.uniform(-1, 1, env.action_space.shape).astype(np.float32)
    return action, action * env.action_space.high


def assert_same_step(definition, theirs, ours):
    _, reward, terminated, _, info = ours
    assert not info["bad"].any()
    assert torch.equal(terminated, theirs.terminated)
    torch.testing.assert_close(info["final_obs"].double(), theirs.obs, **CLOSE)
    torch.testing.assert_close(reward.double(), theirs.reward.double(), **CLOSE)


@for_all
def test_whole_episodes_of_random_actions_are_gymnasiums(definition):
    """gymnasium's environments begin where ours do, and nothing but actions is given to either afterwards."""
    task, envs = make_ours(definition, NUM_ENV), [make_env(definition) for _ in range(NUM_ENV)]
    random, begun, touching = np.random.default_rng(0), torch.ones(NUM_ENV, dtype=torch.bool), 0
    for _ in range(STEPS):
        for world in begun.nonzero().flatten().tolist():
            envs[world].reset()
            envs[world].set_state(*(state[world] for state in our_states(task)))
            first = torch.tensor(envs[world]._get_obs())
            torch.testing.assert_close(task.obs[world].double(), first, **CLOSE)
        actions = [random_action(env, random) for env in envs]
        told = [env.step(action) for env, (_, action) in zip(envs, actions, strict=True)]
        theirs = columns([dict(zip(("obs", "reward", "terminated"), row[:3], strict=True)) for row in told])
        next_states = [np.array([getattr(env.data, name) for env in envs]) for name in ("qpos", "qvel")]
        ours = task.step(torch.tensor(np.array([action for action, _ in actions])))
        assert_same_step(definition, theirs, ours)
        begun, touching = ours[2] | ours[3], touching + sum(env.data.ncon > 0 for env in envs)
        same = [(ours == theirs).all(1) for ours, theirs in zip(our_states(task), next_states, strict=True)]
        assert (np.logical_and(*same) | begun.numpy()).all(), "to the last bit"
    assert touching > 0.1 * STEPS * NUM_ENV


def states_met(definition):
    """States in which gymnasium's robot was, also long after a fall, and whether it touched something there."""
    env, random, rows = make_env(definition), np.random.default_rng(1), []
    for episode in range(EPISODES):
        env.reset(seed=episode)
        for _ in range(EPISODE_STEPS):
            env.step(random_action(env, random)[1])
            rows.append({"qpos": env.data.qpos.copy(), "qvel": env.data.qvel.copy(), "touches": env.data.ncon > 0})
    return columns(rows)


@for_all
def test_a_step_from_any_state_is_gymnasiums(definition):
    states = states_met(definition)
    env, random, rows = make_env(definition), np.random.default_rng(2), []
    for qpos, qvel in zip(states.qpos, states.qvel, strict=True):
        env.reset()
        env.set_state(qpos.numpy(), qvel.numpy())
        action, theirs = random_action(env, random)
        row = dict(zip(("obs", "reward", "terminated"), env.step(theirs)[:3], strict=True))
        rows.append({"action": action, **row, "force": abs(env.data.cfrc_ext).max()})
    theirs, task = columns(rows), make_ours(definition, len(rows))
    all_worlds = torch.ones(len(rows), dtype=torch.bool)
    task._sim.reset(all_worlds)
    task._sim.set("qpos", all_worlds, states.qpos)
    task._sim.set("qvel", all_worlds, states.qvel)
    task._sim.forward()
    assert_same_step(definition, theirs, task.step(theirs.action))
    assert states.touches.sum() > 20 and (theirs.force > 1).sum() > 20
    assert theirs.terminated.any() or definition.spec.name == "mujoco:HalfCheetah-v5"


@for_all
def test_sizes_are_gymnasiums(definition):
    env, spec = make_env(definition), definition.spec
    assert env.observation_space.shape == (spec.observation.size,) and env.action_space.shape == (spec.action.size,)
    assert env.dt == pytest.approx(spec.step_s) and env.frame_skip == definition.substeps
    assert gymnasium.spec(spec.name.partition(":")[2]).max_episode_steps == spec.episode_steps
    scale = definition.control({}, torch.ones(1, spec.action.size))
    assert torch.equal(scale, torch.tensor(env.action_space.high)[None])
    assert torch.equal(-scale, torch.tensor(env.action_space.low)[None])


@for_all
def test_episodes_begin_as_spread_as_gymnasiums(definition):
    ours = definition.reset_state(2 * torch.rand(4000, definition.reset_noise) - 1)
    env, rows = make_env(definition), []
    for seed in range(400):
        env.reset(seed=seed)
        rows.append({"qpos": env.data.qpos.copy(), "qvel": env.data.qvel.copy()})
    theirs, spread = columns(rows), env._reset_noise_scale
    for name, value in ours.items():
        assert value.shape[1:] == getattr(theirs, name).shape[1:]
        centre = torch.tensor(env.init_qpos if name == "qpos" else env.init_qvel, dtype=torch.float32)
        torch.testing.assert_close(value.mean(0), centre, atol=0.1 * spread, rtol=0)
        deviation = getattr(theirs, name).float().std(0)
        torch.testing.assert_close(value.std(0), deviation, atol=0.15 * spread, rtol=0)
        reach = (getattr(theirs, name) - centre).abs().max()
        assert (value - centre).abs().max() < 1.7 * reach
