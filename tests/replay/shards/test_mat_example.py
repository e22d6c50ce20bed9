"""The Multi-Agent Transformer of `examples/mat`: its parts, and two ranks that play and learn."""

import re
import runpy
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
import torch

from gmi_drl.tasks import make

FOLDER = Path(__file__).parents[3] / "examples/mat"
WORLDS, SEEN, DONE = 3, 9, 2


@pytest.fixture(scope="module")
def transformer():
    torch.manual_seed(0)
    made = runpy.run_path(str(FOLDER / "network.py"))["Transformer"](SEEN, DONE, width=16, heads=2)
    torch.nn.init.normal_(made.mean[-1].weight)
    return made


def test_what_it_did_is_as_likely_as_it_learns(transformer):
    obs = torch.randn(WORLDS, 4, SEEN)
    action, log_prob, value = transformer.act(obs)
    assert action.shape == (WORLDS, 4, DONE) and log_prob.shape == value.shape == (WORLDS, 4)
    again, values = transformer(obs, action)
    assert torch.allclose(again, log_prob, atol=1e-5) and torch.allclose(values, value, atol=1e-5)


@pytest.mark.parametrize("agent", range(4))
def test_an_action_depends_on_those_before_it_alone_and_on_all_that_is_seen(transformer, agent):
    obs, action = torch.randn(WORLDS, 4, SEEN), torch.randn(WORLDS, 4, DONE)
    encoded = transformer.encode(obs)
    before = transformer.distribution(encoded, action).mean
    action[:, agent] += 1.0
    changed = (transformer.distribution(encoded, action).mean - before).abs().amax((0, 2)) > 1e-6
    assert changed.tolist() == [one > agent for one in range(4)]
    seen = obs.clone()
    seen[:, agent] = 5.0
    assert ((transformer.encode(seen) - encoded).abs().amax((0, 2)) > 1e-6).all()


def test_legs_see_the_torso_and_their_own_joints_and_get_what_ant_gets():
    legs = runpy.run_path(str(FOLDER / "legs.py"))
    with closing(legs["Legs"](2, seed=3)) as worlds, closing(make("ant", num_env=2, seed=3)) as ant:
        ant.reset()
        ant.episode_length.copy_(worlds._task.episode_length)
        action = torch.rand(2, 4, 2)
        reward, terminated, ended, last = worlds.step(action)
        obs, wanted, *ends, info = ant.step(action.flatten(1))
        assert torch.equal(reward, wanted * ant.spec.reward_scale) and torch.equal(terminated, ends[0])
        assert torch.equal(ended, ends[0] | ends[1])
        assert worlds.obs.shape == (2, 4, legs["OBSERVATION"])
        for leg in range(4):
            own = torch.cat((obs[:, 12 + 2 * leg : 14 + 2 * leg], obs[:, 20 + 2 * leg : 22 + 2 * leg]), 1)
            assert torch.equal(worlds.obs[:, leg, :12], obs[:, :12])
            assert torch.equal(worlds.obs[:, leg, 12:16], own)
            assert torch.equal(worlds.obs[:, leg, 22:24], action[:, leg])  # the last action
            assert worlds.obs[:, leg, 24:].tolist() == [[float(one == leg) for one in range(4)]] * 2
        assert torch.equal(last[:, 0, :12], info["final_obs"][:, :12])


def test_two_ranks_play_and_learn():
    more = ["--seconds", "0", "--worlds", "3", "--steps", "4", "--epochs", "1", "--batches", "2"]
    command = [sys.executable, Path(__file__).with_name("example_ranks.py"), "2", FOLDER / "main.py", *more]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr
    assert re.search(r"^\d+ s, 24 steps: return \S+ of \d+ episodes, reward of a step \S+$", done.stdout, re.M)
