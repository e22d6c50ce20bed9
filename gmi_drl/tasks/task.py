"""The protocol of a task: a batch of N environments that step together, whichever simulator runs them."""

from collections.abc import Mapping
from typing import Protocol

import torch
from torch import Tensor

from gmi_drl.errors import UsageError
from gmi_drl.workload import TaskSpec
from gmi_drl.workload.observations import parts_of
from gmi_drl.workload.spaces import POLICY, group_kinds


class Task(Protocol):
    """N environments of one task. Where an episode ends, the same step begins the next one.

    Attributes:
        spec: The task's sizes.
        num_env: N.
        device: The device of all tensors.
        obs: The current observations, float32 `[N, O]`, as last returned.
        episode_length: Steps in the current episodes, int64 `[N]`.
        counts_by_itself: Whether the simulator has a count of its own, which `episode_length` only shows. If False, a
            learner may write to `episode_length` to stagger the first episodes.
    """

    spec: TaskSpec
    num_env: int
    device: torch.device
    obs: Tensor
    episode_length: Tensor
    counts_by_itself: bool

    def reset(self) -> Tensor:
        """Begin a new episode in every environment. Returns the first observations `[N, O]`."""

    def step(self, action: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor, dict[str, Tensor]]:
        """Step every environment once (one control step).

        The next `step`, `reset` or `load_state_dict` may overwrite the returned tensors: copy what must last.

        Args:
            action: `[N, A]`, clamped to [-1, 1], except where another library's simulator has no bounds.

        Returns:
            obs: `[N, O]`; where an episode ended, the first observation of the next one.
            reward: `[N]`.
            terminated: bool `[N]`, the task's own end (a fall).
            truncated: bool `[N]`, the time limit without such an end, or a failure of the physics.
            info: `final_obs` `[N, O]`, the observation before any reset. `bad` bool `[N]`: the physics failed or the
                action was NaN; the reward is 0 and `final_obs` the observation before the step. `valid` bool `[N]`:
                False where the step is no transition. That is so in bad environments, in the rest of an episode in
                which another library's simulator failed, and in steps that it uses to begin an episode. Leave these
                steps out of training, and do not bootstrap from them.
            Where a task learns from other rewards and ends than its simulator's (clipped rewards, lives as ends), also
            `own_reward` `[N]` and `own_end` bool `[N]`, the simulator's own, of which returns are (`own_outcome`).
            All numbers are finite.

        Raises:
            UsageError: The action has another shape.
        """

    def state_dict(self) -> dict[str, Tensor]:
        """A copy on the CPU of all that a bit-identical continuation needs; empty if the simulator cannot give it."""

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Go on from a `state_dict` of the same task and num_env. An empty one begins new episodes.

        Raises:
            UsageError: The sizes differ.
        """

    def close(self) -> None:
        """Free the environments. May be called twice."""


def own_outcome(reward: Tensor, ended: Tensor, info: Mapping[str, Tensor]) -> tuple[Tensor, Tensor]:
    """The simulator's own reward `[N]` and end bool `[N]` of a step, which returns are of.

    Args:
        reward: As `Task.step` returns it.
        ended: Whether the step is terminated or truncated.
        info: As `Task.step` returns it.
    """
    return info.get("own_reward", reward), info.get("own_end", ended)


def groups_of(task: Task) -> dict[str, Tensor]:
    """The current observations `[N, ...]` by group, for rsl_rl: the simulator's groups, and those of `group_kinds`.

    `policy` is the whole observation where it is one part or vectors alone. Of several parts each is a group. Images
    are float32 in [0, 1].
    """
    observation = task.spec.observation
    parts = {POLICY: task.obs, **parts_of(task.obs, observation)}
    kinds = group_kinds(observation)
    groups = {name: parts[name] if kind == "vector" else parts[name] / 255 for name, kind in kinds.items()}
    return {**getattr(task, "groups", {}), **groups}


def knows_final_obs(task: Task) -> bool:
    """Whether `final_obs` is the last observation of an ended episode. If False, it is the one before the step."""
    return bool(getattr(task, "knows_final_obs", True))


def checked_action(action: Tensor, task: Task) -> Tensor:
    """The action `[N, A]` as float32.

    Raises:
        UsageError: It has another shape.
    """
    expected = (task.num_env, task.spec.action.size)
    if tuple(action.shape) != expected:
        raise UsageError(f"The action has shape {tuple(action.shape)}, but {task.spec.name} takes {expected}.")
    return action.to(torch.float32)
