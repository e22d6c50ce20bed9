"""What the adapters share: actions in the simulator's bounds, lengths of episodes, failures kept out of training."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import groupby
from math import prod
from typing import Any

import torch
from torch import Tensor

from gmi_drl.errors import UsageError
from gmi_drl.spaces import continuous, vector
from gmi_drl.tasks.finite import LARGEST, Notices, finite_weights, weighed_sums
from gmi_drl.tasks.task import checked_action
from gmi_drl.workload import UNLIMITED_STEPS, TaskSpec

HIDDEN = (256, 128, 64)


@dataclass
class Outcome:
    """What the simulator returned for a step: observations float32 `[N, O]`, the others `[N]`, all on the device.

    Args:
        obs: The observations that the next actions are chosen by.
        reward: The rewards of this step.
        terminated: Whether the episode ended by the task's own end.
        truncated: Whether it ended by the time limit; both may be True.
        final_obs: The last observation of an episode that ended; elsewhere `obs`.
        began: Whether the environment used the step to begin an episode, so that it is no transition. None: no
            environment did.
    """

    obs: Tensor
    reward: Tensor
    terminated: Tensor
    truncated: Tensor
    final_obs: Tensor
    began: Tensor | None = None


class AdaptedTask(ABC):
    """A `Task` over another library's vectorised simulator; see `gmi_drl.tasks.Task`.

    Actions are clamped to [-1, 1] and scaled to the simulator's bounds where these are finite; other actions are passed
    on unchanged. An action that is not finite never reaches the simulator: the step is returned as the end of an
    episode, although the simulator goes on with the old one.

    An environment whose observation or reward is not finite is `bad` in that step (for a first observation: in the
    next step), and none of its steps is `valid` until the simulator begins a new episode there. Such an observation is
    replaced by the environment's last finite one, or by zeros. Numbers beyond `finite.LARGEST` are clamped to it. On
    the CPU a `GmiWarning` names the first number of each kind. On a GPU there is no warning, because the search would
    wait for the device.

    A simulator may change torch's default type: the change holds in its own `reset` and `step` only.

    `state_dict` is empty, because other libraries' simulators give no state away: a resumed run begins new episodes.

    Args:
        spec: The task's sizes.
        obs: The first observations, float32 `[N, O]`, finite or not. N and the device are taken from them.
        action_space: Action space of one environment, with `low` and `high` that broadcast to `[A]`.
    """

    episode_length: Tensor
    counts_by_itself = True

    def __init__(self, spec: TaskSpec, obs: Tensor, action_space: Any) -> None:
        self.spec, self.num_env, self.device = spec, len(obs), obs.device
        self._weights, self._is_on_host = finite_weights(spec.observation.size, obs.device), obs.device.type == "cpu"
        self._notices, self._steps = Notices(spec.name), 0
        self._default_dtype = torch.get_default_dtype()
        self.obs = torch.zeros_like(obs)
        self._is_lost = self._is_bad_next = ~self._set_obs(obs)
        self.episode_length = torch.zeros(self.num_env, dtype=torch.int64, device=self.device)
        low, high = (bound.to(self.device) for bound in _bounds(action_space))
        self._is_bounded = low.isfinite() & high.isfinite()
        self._scale = torch.where(self._is_bounded, (high - low) / 2, 1.0)
        self._offset = torch.where(self._is_bounded, (high + low) / 2, 0.0)

    @torch.no_grad()
    def reset(self) -> Tensor:
        """See `Task.reset`."""
        self._steps = 0
        with self._simulators_dtype():
            obs = self._begin()
        self._is_lost = self._is_bad_next = ~self._set_obs(obs)
        self.episode_length.zero_()
        return self.obs

    @torch.no_grad()
    def step(self, action: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor, dict[str, Tensor]]:
        """See `Task.step`. Steps that begin an episode are truncated, with `valid` and `bad` False."""
        action = checked_action(action, self)
        action = torch.where(self._is_bounded, action.clamp(-1, 1), action)
        is_broken = ~action.isfinite().all(1)
        harmless = action.masked_fill(is_broken[:, None], 0.0)
        with self._simulators_dtype():
            outcome = self._simulate(torch.addcmul(self._offset, harmless, self._scale))
        self._steps += 1

        wrong = ~weighed_sums(outcome.final_obs, self._weights, outcome.reward).isfinite()
        reward = outcome.reward.clamp(-LARGEST, LARGEST)
        if self._is_on_host and (wrong.any() or not torch.equal(reward, outcome.reward)):
            self._notices.look(self._steps, outcome.final_obs, outcome.reward)
        begins = outcome.terminated | outcome.truncated if outcome.began is None else outcome.began
        bad = is_broken | (wrong & ~self._is_lost) | self._is_bad_next
        valid = ~(bad | wrong | self._is_lost)
        if outcome.began is not None:
            valid &= ~begins
        terminated = outcome.terminated & valid
        truncated = ~valid | (outcome.truncated & ~terminated)
        final_obs = torch.where((bad | wrong)[:, None], self.obs, outcome.final_obs.clamp(-LARGEST, LARGEST))
        is_finite = self._set_obs(outcome.obs)
        self._is_lost = ~is_finite | ((self._is_lost | wrong) & ~begins)
        self._is_bad_next = ~is_finite & begins & ~bad
        self._count(terminated | truncated)
        info = {"final_obs": final_obs, "bad": bad, "valid": valid}
        return self.obs, reward.masked_fill_(~valid, 0.0), terminated, truncated, info

    def state_dict(self) -> dict[str, Tensor]:
        """Empty: see the class."""
        return {}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Begin new episodes. Raises UsageError for a state that is not empty."""
        if state:
            raise UsageError(f"{self.spec.name} can load no state, but one was given: {', '.join(state)}")
        self.reset()

    @abstractmethod
    def close(self) -> None:
        """See `Task.close`."""

    @abstractmethod
    def _begin(self) -> Tensor:
        """Begin a new episode in every environment. Returns the first observations `[N, O]`."""

    @abstractmethod
    def _simulate(self, action: Tensor) -> Outcome:
        """Step with finite actions `[N, A]`, scaled to the bounds. The returned tensors may be the simulator's own."""

    @contextmanager
    def _simulators_dtype(self) -> Iterator[None]:
        """Set torch's default type to the simulator's for the time of a `with` block."""
        ours = torch.get_default_dtype()
        torch.set_default_dtype(self._default_dtype)
        try:
            yield
        finally:
            self._default_dtype = torch.get_default_dtype()
            torch.set_default_dtype(ours)

    def _set_obs(self, obs: Tensor) -> Tensor:
        """Set the current observations from raw ones `[N, O]` where these are finite. Returns where, bool `[N]`."""
        sums, clamped = weighed_sums(obs, self._weights), obs.clamp(-LARGEST, LARGEST)
        is_finite = sums.isfinite()
        self.obs = torch.where(is_finite[:, None], clamped, self.obs)
        if self._is_on_host and not torch.equal(sums, weighed_sums(clamped, self._weights)):
            self._notices.look(self._steps, obs)
        return is_finite

    def _count(self, ended: Tensor) -> None:
        self.episode_length += 1
        self.episode_length.masked_fill_(ended, 0)


def spec_of(
    name: str, obs_space: Any, action_space: Any, *, episode_steps: int | None, step_s: float, reward_scale: float = 1.0
) -> TaskSpec:
    """The sizes of a task, from the spaces of one environment.

    Raises:
        UsageError: if a space is no box of numbers.
    """
    num_obs, num_actions = _size(name, "observations", obs_space), _size(name, "actions", action_space)
    steps = episode_steps or UNLIMITED_STEPS
    bounds = in_words(action_space)
    return TaskSpec(
        name,
        name,
        vector(num_obs),
        continuous(num_actions),
        HIDDEN,
        int(steps),
        float(step_s),
        reward_scale,
        action_bounds=bounds,
    )


def in_words(action_space: Any) -> str:
    """The bounds of a box as text, equal neighbours counted: `2 x [-1, 1], 1 x [0, 5]`."""
    low, high = (bound.tolist() for bound in _bounds(action_space))
    runs = [(bounds, len(list(alike))) for bounds, alike in groupby(zip(low, high, strict=True))]
    return ", ".join(f"{count} x [{least:g}, {most:g}]" for (least, most), count in runs)


def _bounds(space: Any) -> tuple[Tensor, Tensor]:
    """The least and the greatest number of each entry of a box, flat, float32."""
    low, high = (torch.as_tensor(bound, dtype=torch.float32).expand(space.shape) for bound in (space.low, space.high))
    return low.flatten(), high.flatten()


def _size(name: str, what: str, space: Any) -> int:
    """How many numbers a box has. Every library has its own Box; only boxes have `low` and `high`."""
    if not (hasattr(space, "low") and hasattr(space, "high")):
        message = f"{name}: its {what} are {space}: supported is a Box of numbers, of any shape"
        if what == "observations" and hasattr(space, "spaces"):
            message += (
                ". gymnasium.wrappers.FlattenObservation makes one Box of them: register an entry that wraps your "
                "environment in it"
            )
        raise UsageError(message)
    return prod(space.shape)
