"""Ant's four legs as agents: each sees the torso and its own joints, moves these, and all have one reward."""

import torch
from torch import Tensor

from gmi_drl.tasks import make

LEGS, TORSO = 4, 12
ACTION = 2
"""Numbers of a leg's action: the motors of its hip and knee."""

# Of the observation of Ant (gmi_drl/tasks/ant.py), for leg number l: where its numbers begin, and how many there are.
_OWN = ((12, 2), (20, 2), (28, 6), (52, 2))  # angles, velocities, force and torque in the knee, last action

OBSERVATION = TORSO + sum(count for _, count in _OWN) + LEGS


def _places() -> Tensor:
    """The numbers of Ant's observation that each leg sees, `[4, 24]`."""
    own = [[first + leg * count + place for first, count in _OWN for place in range(count)] for leg in range(LEGS)]
    return torch.tensor([[*range(TORSO), *rows] for rows in own])


class Legs:
    """N worlds of four agents each.

    Args:
        num_env: N.
        seed: Of the task.

    Attributes:
        obs: What the agents see now, `[N, 4, O]`; the last four numbers say which leg it is.
        returns: Of the episodes that have ended since they were last taken out.
    """

    def __init__(self, num_env: int, seed: int) -> None:
        self._task = make("ant", num_env=num_env, seed=seed)
        self._seen, self._names = _places(), torch.eye(LEGS).expand(num_env, -1, -1)
        self._return = torch.zeros(num_env)
        self.returns: list[float] = []
        self.scale = self._task.spec.reward_scale
        self.obs = self._of_legs(self._task.reset())
        self._task.episode_length.copy_(torch.randint(self._task.spec.episode_steps, (num_env,)))
        self._is_first = torch.ones(num_env, dtype=torch.bool)  # of each world: begun in the middle

    def step(self, action: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Step with actions `[N, 4, 2]`.

        Returns:
            Rewards `[N]`, scaled; whether episodes have terminated, and whether they have ended at all, bool `[N]`;
            and what was seen before any reset, `[N, 4, O]`.
        """
        obs, reward, terminated, truncated, info = self._task.step(action.flatten(1))
        ended = terminated | truncated
        self._return += reward
        self.returns += self._return[ended & ~self._is_first].tolist()
        self._return.masked_fill_(ended, 0.0)
        self._is_first &= ~ended
        self.obs = self._of_legs(obs)
        return reward * self.scale, terminated, ended, self._of_legs(info["final_obs"])

    def close(self) -> None:
        """Free the worlds."""
        self._task.close()

    def _of_legs(self, obs: Tensor) -> Tensor:
        return torch.cat((obs[:, self._seen], self._names), -1)
