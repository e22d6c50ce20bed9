"""What the adapters share: actions within the simulator's bounds, episodes counted, accidents kept out of training."""

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
from gmi_drl.tasks.finite import LARGEST, Notices, finite_weights, weighed_sums
from gmi_drl.tasks.task import checked_action
from gmi_drl.workload import UNLIMITED_STEPS, TaskSpec

HIDDEN = (256, 128, 64)


@dataclass
class Outcome:
    """One step as the simulator tells it; observations float32 `[N, O]`, the others `[N]`, all on the device.

    Args:
        obs: What the next action is for.
        reward: Of this step.
        terminated: The task's own end.
        truncated: The time limit; may come with `terminated`.
        final_obs: The last observation of an episode that ended; elsewhere `obs`.
        began: Worlds that used the step to begin an episode: it is no transition. None for no world.
    """

    obs: Tensor
    reward: Tensor
    terminated: Tensor
    truncated: Tensor
    final_obs: Tensor
    began: Tensor | None = None


class AdaptedTask(ABC):
    """A `Task` by somebody else's vectorised simulator; see `gmi_drl.tasks.Task`.

    Actions are clamped to [-1, 1] and scaled to the simulator's bounds where these are finite, else passed on as they
    are. An action that is not finite never reaches the simulator; that step is told as the end of an episode, but the
    simulator goes on with the old one.

    A world whose observation or reward is not finite is `bad` in that step (after a first observation: in the next),
    and none of its steps is `valid` until the simulator begins a new episode there. Such an observation is replaced by
    the last finite one of that world, by zeros if there is none. Observations and rewards
    beyond `finite.LARGEST` are clamped to it. On the host a `GmiWarning` names the first number of either kind; on a
    GPU looking for it would wait.

    A simulator may set torch's default type for itself: it has it in `reset` and `step`, and nobody else.

    Simulators of others give no state away: `state_dict` is empty, and a resumed run begins new episodes.

    Args:
        spec: Sizes.
        obs: The first observation, float32 `[N, O]`, finite or not; says N and the device.
        action_space: Of one world, with `low` and `high` that broadcast to `[A]`.
    """

    episode_length: Tensor
    counts_by_itself = True

    def __init__(self, spec: TaskSpec, obs: Tensor, action_space: Any) -> None:
        self.spec, self.num_env, self.device = spec, len(obs), obs.device
        self._weights, self._is_on_host = finite_weights(spec.num_obs, obs.device), obs.device.type == "cpu"
        self._notices, self._steps = Notices(spec.name), 0
        self._default_dtype = torch.get_default_dtype()
        self.obs = torch.zeros_like(obs)
        self._is_lost = self._is_untold = ~self._show(obs)
        self.episode_length = torch.zeros(self.num_env, dtype=torch.int64, device=self.device)
        low, high = (bound.to(self.device) for bound in _bounds(action_space))
        self._is_bounded = low.isfinite() & high.isfinite()
        self._scale = torch.where(self._is_bounded, (high - low) / 2, 1.0)
        self._offset = torch.where(self._is_bounded, (high + low) / 2, 0.0)

    @torch.no_grad()
    def reset(self) -> Tensor:
        """See `Task.reset`."""
        self._steps = 0
        with self._their_dtype():
            obs = self._begin()
        self._is_lost = self._is_untold = ~self._show(obs)
        self.episode_length.zero_()
        return self.obs

    @torch.no_grad()
    def step(self, action: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor, dict[str, Tensor]]:
        """See `Task.step`. Steps that begin an episode end as truncated, with `valid` and `bad` False."""
        action = checked_action(action, self)
        action = torch.where(self._is_bounded, action.clamp(-1, 1), action)
        is_broken = ~action.isfinite().all(1)
        harmless = action.masked_fill(is_broken[:, None], 0.0)
        with self._their_dtype():
            told = self._simulate(torch.addcmul(self._offset, harmless, self._scale))
        self._steps += 1

        wrong = ~weighed_sums(told.final_obs, self._weights, told.reward).isfinite()
        reward = told.reward.clamp(-LARGEST, LARGEST)
        if self._is_on_host and (wrong.any() or not torch.equal(reward, told.reward)):
            self._notices.look(self._steps, told.final_obs, told.reward)
        begins = told.terminated | told.truncated if told.began is None else told.began
        bad = is_broken | (wrong & ~self._is_lost) | self._is_untold
        valid = ~(bad | wrong | self._is_lost)
        if told.began is not None:
            valid &= ~begins
        terminated = told.terminated & valid
        truncated = ~valid | (told.truncated & ~terminated)
        final_obs = torch.where((bad | wrong)[:, None], self.obs, told.final_obs.clamp(-LARGEST, LARGEST))
        is_seen = self._show(told.obs)
        self._is_lost = ~is_seen | ((self._is_lost | wrong) & ~begins)
        self._is_untold = ~is_seen & begins & ~bad
        self._count(terminated | truncated)
        info = {"final_obs": final_obs, "bad": bad, "valid": valid}
        return self.obs, reward.masked_fill_(~valid, 0.0), terminated, truncated, info

    def state_dict(self) -> dict[str, Tensor]:
        """Nothing: see the class."""
        return {}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Begin new episodes. Raises UsageError for a state, which no adapter has given."""
        if state:
            raise UsageError(f"{self.spec.name} gives no state and takes none: this one has {', '.join(state)}")
        self.reset()

    @abstractmethod
    def close(self) -> None:
        """See `Task.close`."""

    @abstractmethod
    def _begin(self) -> Tensor:
        """New episodes everywhere; the first observation `[N, O]`."""

    @abstractmethod
    def _simulate(self, action: Tensor) -> Outcome:
        """One step with finite actions `[N, A]`, scaled to the bounds. The tensors may be the simulator's own."""

    @contextmanager
    def _their_dtype(self) -> Iterator[None]:
        """Give the simulator torch's default type as it has left it, and take ours again."""
        ours = torch.get_default_dtype()
        torch.set_default_dtype(self._default_dtype)
        try:
            yield
        finally:
            self._default_dtype = torch.get_default_dtype()
            torch.set_default_dtype(ours)

    def _show(self, obs: Tensor) -> Tensor:
        """Make raw observations `[N, O]` the current ones where they are finite, which is returned, bool `[N]`."""
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
    """The sizes of a task, from the spaces of one world.

    Raises:
        UsageError: if one of them is no box of numbers.
    """
    num_obs, num_actions = _size(name, "observations", obs_space), _size(name, "actions", action_space)
    steps = episode_steps or UNLIMITED_STEPS
    bounds = in_words(action_space)
    return TaskSpec(
        name, name, num_obs, num_actions, HIDDEN, int(steps), float(step_s), reward_scale, action_bounds=bounds
    )


def in_words(action_space: Any) -> str:
    """The bounds of a box, alike ones counted: `2 x [-1, 1], 1 x [0, 5]`."""
    low, high = (bound.tolist() for bound in _bounds(action_space))
    runs = [(bounds, len(list(alike))) for bounds, alike in groupby(zip(low, high, strict=True))]
    return ", ".join(f"{count} x [{least:g}, {most:g}]" for (least, most), count in runs)


def _bounds(space: Any) -> tuple[Tensor, Tensor]:
    """The least and the greatest number of each entry of a box, flat, float32."""
    low, high = (torch.as_tensor(bound, dtype=torch.float32).expand(space.shape) for bound in (space.low, space.high))
    return low.flatten(), high.flatten()


def _size(name: str, what: str, space: Any) -> int:
    """Numbers in a box. Every library has boxes of its own; `low` and `high` tell them from the other spaces."""
    if not (hasattr(space, "low") and hasattr(space, "high")):
        words = f"{name}: its {what} are {space}: supported is a Box of numbers, of any shape"
        if what == "observations" and hasattr(space, "spaces"):
            words += (
                ". gymnasium.wrappers.FlattenObservation makes one of them: register an entry that wraps yours in it"
            )
        raise UsageError(words)
    return prod(space.shape)
