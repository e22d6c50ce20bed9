"""What a recorder hands over is what a player sees, step by step; physics is real, but for what it never does."""

from types import SimpleNamespace

import pytest
import torch

from gmi_drl.algo.agent import make_agent
from gmi_drl.config.learners import PPOConfig
from gmi_drl.roles.serving.recorder import Recorder
from gmi_drl.roles.serving.service import Service
from gmi_drl.tasks import make
from gmi_drl.tasks.adapters.torch_env import TorchEnvTask
from tests.tasks.adapters.fakes import fake_isaaclab_env

CPU = torch.device("cpu")
NAMES = ("obs", "action", "reward", "terminated", "truncated", "valid")


class Kept:
    """A sink in memory."""

    def __init__(self):
        self.blocks, self.is_closed = [], False

    def take(self, block):
        self.blocks.append(block.on_host())

    def close(self):
        self.is_closed = True


def worlds(seed=0):
    task = make("ball_balance", num_env=6, seed=seed)
    return task, make_agent(task.spec, PPOConfig(), CPU, seed=0)


def seen(task, agent, steps, noise):
    """Every step by hand: what `Block` has, and the last observation of each."""
    rows = []
    for _ in range(steps):
        obs = task.obs.clone()
        action = agent.act(obs, torch.randn(6, 3, generator=noise))
        _, reward, terminated, truncated, info = task.step(action)
        told = (reward, terminated, truncated, info["valid"], info["final_obs"])
        rows.append((obs, action, *(tensor.clone() for tensor in told)))
    return [torch.stack(column) for column in zip(*rows, strict=True)], task.obs.clone()


def test_blocks_have_all_steps_and_continue_each_other():
    sink, (task, agent) = Kept(), worlds()
    recorder = Recorder(task, 60, sink)
    service = Service(task, agent, torch.Generator().manual_seed(5), recorder=recorder)
    for steps in (40, 20, 60, 30):
        service.play(steps)
        if not recorder.room:
            recorder.flush()
    assert [block.steps for block in sink.blocks] == [60, 60] and recorder.room == 30 and not sink.is_closed
    recorder.close()
    assert [block.steps for block in sink.blocks] == [60, 60, 30] and sink.is_closed

    (*columns, final_obs), last_obs = seen(*worlds(), 150, torch.Generator().manual_seed(5))
    for name, expected in zip(NAMES, columns, strict=True):
        assert torch.equal(torch.cat([getattr(block, name) for block in sink.blocks]), expected), name
    assert sum(len(block.final_obs) for block in sink.blocks) > 2
    assert torch.equal(torch.cat([block.next_obs() for block in sink.blocks]), final_obs)
    assert torch.equal(sink.blocks[-1].last_obs, last_obs)
    for block, following in zip(sink.blocks, sink.blocks[1:], strict=False):
        assert torch.equal(block.last_obs, following.obs[0]) and block.knows_final_obs


class Accidents:
    """A world ends well, one goes wrong, one begins an episode in a step that is none, one goes on."""

    num_env, device = 4, CPU

    def __init__(self):
        task = make("ball_balance", num_env=4)
        self.spec, self.obs = task.spec, task.obs


def test_only_transitions_have_a_last_observation():
    task, sink = Accidents(), Kept()
    recorder = Recorder(task, 2, sink)
    final_obs = torch.randn(4, 24)
    terminated, truncated, valid = (torch.tensor(flags).bool() for flags in ([1, 0, 0, 0], [0, 1, 1, 0], [1, 0, 0, 1]))
    for _ in range(2):
        info = {"valid": valid, "final_obs": final_obs}
        recorder.add(task.obs, torch.zeros(4, 3), torch.ones(4), terminated, truncated, info)
    recorder.close()
    (block,) = sink.blocks
    assert block.final_at.tolist() == [[0, 0], [1, 0]] and torch.equal(block.final_obs, final_obs[[0, 0]])
    assert block.valid.tolist() == [valid.tolist()] * 2 and block.truncated[0].tolist() == truncated.tolist()


def test_nothing_to_hand_over_is_not_handed_over():
    sink = Kept()
    recorder = Recorder(worlds()[0], 2, sink)
    recorder.flush()
    recorder.close()
    assert sink.blocks == [] and sink.is_closed


@pytest.mark.parametrize("computes", [False, True])
def test_blocks_know_whether_last_observations_are_known(computes):
    env, sink = fake_isaaclab_env(), Kept()
    env.gives_final_obs, env.cfg = computes, SimpleNamespace(compute_final_obs=computes)
    task = TorchEnvTask(env, "lab:fake")
    recorder = Recorder(task, 5, sink)
    for _ in range(5):
        obs = task.obs.clone()
        recorder.add(obs, torch.zeros(2, 2), *task.step(torch.zeros(2, 2))[1:])
    recorder.flush()
    (block,) = sink.blocks
    assert len(block.final_obs) > 0 and block.knows_final_obs == computes
    at = block.final_at
    assert torch.equal(block.final_obs, block.obs[at[:, 0], at[:, 1]]) == (not computes)
