import pytest
import torch

from gmi_drl.algo.agent import make_agent
from gmi_drl.config.learners import PPOConfig
from gmi_drl.roles.serving.player import Player
from gmi_drl.roles.serving.service import Service
from gmi_drl.roles.training.policy_step import PolicyStep
from gmi_drl.tasks import make

CPU = torch.device("cpu")


def worlds(seed=0, task="ball_balance"):
    task = make(task, num_env=6, seed=seed)
    return task, make_agent(task.spec, PPOConfig(), CPU, seed=0)


def noise(seed):
    return torch.Generator().manual_seed(seed)


def test_a_policy_step_gives_the_agents_actions():
    task, agent = worlds()
    act = PolicyStep(task, agent)
    act(torch.zeros(6, 3))
    assert torch.equal(act.action, agent.act(task.obs)) and torch.equal(act.params, act.action)
    some = torch.randn(6, 3)
    act(some)
    assert torch.equal(act.action, agent.act(task.obs, some)) and torch.equal(act.obs, task.obs)


@pytest.mark.parametrize("stochastic", [False, True])
def test_blocks_hold_the_episodes_that_a_player_plays(stochastic):
    player = Player(*worlds(), noise(7) if stochastic else None)
    service = Service(*worlds(), noise(7) if stochastic else None)
    for steps in (100, 1, 99):
        service.play(steps)
    for _ in range(200):
        player.step()
    episodes = player.finished
    assert len(episodes) > 2
    returns, lengths = (sum(getattr(one, name) for one in episodes) for name in ("total", "length"))
    assert service.sums.tolist() == [len(episodes), pytest.approx(returns), lengths, 0]


class Accidents:
    """A world ends well, goes wrong, begins an episode in a step that is none, and goes on."""

    num_env, device = 4, CPU

    def __init__(self):
        task = make("ball_balance", num_env=4)
        self.spec, self.obs = task.spec, task.obs

    def step(self, action):
        no = torch.zeros(4, dtype=torch.bool)
        terminated, truncated, bad, valid = (no.clone() for _ in range(4))
        terminated[0], truncated[1], bad[1], truncated[2] = True, True, True, True
        valid[:] = torch.tensor([True, False, False, True])
        return self.obs, torch.full((4,), 2.0), terminated, truncated, {"bad": bad, "valid": valid}


def test_wrong_episodes_are_counted_apart_and_first_steps_not_at_all():
    task = Accidents()
    service = Service(task, make_agent(task.spec, PPOConfig(), CPU, seed=0))
    service.play(3)
    assert service.sums.tolist() == [3, 3 * 2.0, 3, 3]


def test_times_are_of_simulator_and_agent():
    service = Service(*worlds())
    service.play(2)
    assert set(service.phases()) == {"sim_s", "act_s"} and min(service.phases().values()) > 0


def test_a_step_lasts_from_one_observation_to_the_next():
    service = Service(*worlds())
    service.play(3)
    in_all, steps = sum(service.phases().values()), service.latencies()
    assert len(steps) == 3 and min(steps) > 0 and sum(steps) <= in_all * (1 + 1e-9)
    service.play(1)
    service.phases()
    assert len(service.latencies()) == 1
