"""What every task can do, whoever simulates it."""

from collections.abc import Mapping
from typing import Protocol

import torch
from torch import Tensor

from gmi_drl.errors import UsageError
from gmi_drl.workload import TaskSpec


class Task(Protocol):
    """N worlds of one task, all tensors on `device`; a world that ends starts its next episode within the same step.

    Attributes:
        spec: The task's sizes.
        num_env: N.
        device: Where all tensors are.
        obs: The current observation, float32 `[N, O]`, as last returned.
        episode_length: Steps in the current episode, int64 `[N]`.
        counts_by_itself: Whether the simulator counts whatever is written to `episode_length`; else a learner may write
            it to stagger the first episodes.
    """

    spec: TaskSpec
    num_env: int
    device: torch.device
    obs: Tensor
    episode_length: Tensor
    counts_by_itself: bool

    def reset(self) -> Tensor:
        """Start a new episode in every world; returns the first observation `[N, O]`."""

    def step(self, action: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor, dict[str, Tensor]]:
        """One control step of every world.

        The next one, `reset` and `load_state_dict` may overwrite what it returns: copy what is to be kept.

        Args:
            action: `[N, A]`, clamped to [-1, 1]; not where a simulator of others has no bounds.

        Returns:
            obs: `[N, O]`; where an episode ended, the first observation of the next one.
            reward: `[N]`.
            terminated: bool `[N]`, the task's own end (a fall).
            truncated: bool `[N]`, the time limit without such an end, or an accident of the physics.
            info: `final_obs` `[N, O]`, the observation before any reset; `bad` bool `[N]`, worlds in which the physics
                went wrong or the action was NaN, with reward 0 and the observation before the step; `valid` bool
                `[N]`, False for what is no transition: those, the rest of an episode in which a simulator of others
                went wrong, and steps that it used to begin an episode. Leave them out of training and do not bootstrap
                from them.
            All numbers are finite.

        Raises:
            UsageError: The action has another shape.
        """

    def state_dict(self) -> dict[str, Tensor]:
        """A copy, on the CPU, of what a bit-identical continuation needs; empty where a simulator cannot give it."""

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Go on from `state_dict` of the same task with the same num_env; from an empty one with new episodes.

        Raises:
            UsageError: The sizes differ.
        """

    def close(self) -> None:
        """Free the worlds. Closing twice is fine."""


def groups_of(task: Task) -> dict[str, Tensor]:
    """The current observations `[N, ...]` by group: `policy`, which is `obs`, and what simulators have beside it."""
    return {**getattr(task, "groups", {}), "policy": task.obs}


def knows_final_obs(task: Task) -> bool:
    """Whether `final_obs` is what the simulator saw at the end of an episode; else it is the observation before."""
    return bool(getattr(task, "knows_final_obs", True))


def checked_action(action: Tensor, task: Task) -> Tensor:
    """The action `[N, A]` of all worlds as float32.

    Raises:
        UsageError: It has another shape.
    """
    expected = (task.num_env, task.spec.num_actions)
    if tuple(action.shape) != expected:
        raise UsageError(f"The action has shape {tuple(action.shape)}, but {task.spec.name} takes {expected}.")
    return action.to(torch.float32)
