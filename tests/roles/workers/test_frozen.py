"""The part of a policy that learns nothing: it acts in its rows, is told its rewards, and begins anew."""

from types import SimpleNamespace

import torch

from gmi_drl.algo.distributions import distribution_of
from gmi_drl.roles.training.clock import PhaseClock
from gmi_drl.roles.workers.ring import play
from gmi_drl.roles.workers.several import Frozen
from gmi_drl.workload import TASK_SPECS

ACTION = TASK_SPECS["ball_balance"].action


class Pairs:
    """Two worlds of two agents, whose rewards are the numbers of their rows; the second world ends after a step."""

    num_env = 4

    def __init__(self):
        self.obs, self.actions = torch.arange(4.0)[:, None], []

    def step(self, action):
        self.actions.append(action.clone())
        ended = torch.tensor([False, False, True, True])
        return (
            self.obs,
            torch.arange(4.0),
            ended,
            torch.zeros(4, dtype=torch.bool),
            {"valid": torch.tensor([False, True, False, True])},
        )


class Agent:
    """Acts by what it sees, times ten, and counts its rewards in its state."""

    policy = SimpleNamespace(distribution=distribution_of(ACTION))

    def empty_state(self, num_env):
        return torch.zeros(num_env, 1)

    def act(self, obs, noise, state):
        assert len(obs) == len(noise) == len(state) == 2
        return obs.expand(2, ACTION.size) * 10

    def receive(self, reward, valid, state):
        state[valid, 0] += reward[valid]


class Others:
    """The rows of another policy, whose actions are -1."""

    rows = torch.tensor([0, 2])

    def take(self, member, t):
        return torch.full((2, ACTION.size), -1.0)

    def nothing(self, *arguments):
        """Keep and post nothing."""

    post = write = keep_states = nothing


def test_it_acts_in_its_rows_beside_others():
    task, told = Pairs(), []
    frozen = Frozen([task], torch.tensor([1, 3]), Agent(), [torch.Generator().manual_seed(0)])
    play([task], [Others(), frozen], 3, PhaseClock(torch.device("cpu")), told.append)
    assert [action[:, 0].tolist() for action in task.actions] == [[-1, 10, -1, 30]] * 3
    assert frozen._acting[0].state.flatten().tolist() == [3 * 1, 0], "rewards count until the episode ends"
    assert told == [0, 1, 2]
