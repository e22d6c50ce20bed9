"""What the adapters share: actions in the simulator's bounds, lengths of episodes, failures kept out of training."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from gmi_drl.errors import UsageError
from gmi_drl.tasks.adapters.specs import bounds_of
from gmi_drl.tasks.finite import LARGEST, Notices, finite_weights, weighed_sums
from gmi_drl.tasks.task import checked_action
from gmi_drl.workload import TaskSpec
from gmi_drl.workload.observations import parts_of


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
        own_reward: The simulator's own rewards, if `reward` is another one.
        own_end: Where the simulator's own episode ended, if others end earlier; with `own_reward`.
        absent: Where an agent has left its world before the step, so that it is no transition. None: nowhere.
        renewed: With `absent`: where a world begins anew after the step.
        gone: With `absent`: where an agent has left and its world goes on, so that no action counts.
    """

    obs: Tensor
    reward: Tensor
    terminated: Tensor
    truncated: Tensor
    final_obs: Tensor
    began: Tensor | None = None
    own_reward: Tensor | None = None
    own_end: Tensor | None = None
    absent: Tensor | None = None
    renewed: Tensor | None = None
    gone: Tensor | None = None


class AdaptedTask(ABC):
    """A `Task` over another library's vectorised simulator; see `gmi_drl.tasks.Task`.

    Actions are clamped to [-1, 1] and scaled to the simulator's bounds where these are finite; other actions are passed
    on unchanged. An action that is not finite never reaches the simulator: the step is returned as the end of an
    episode, although the simulator goes on with the old one.

    An environment whose observation or reward is not finite is `bad` in that step (for a first observation, or a mask
    that allows nothing: in the next step), and none of its steps is `valid` until the simulator begins a new episode
    there. Such an observation is replaced by the environment's last one, or by zeros. Numbers beyond `finite.LARGEST`
    are clamped to it. On the CPU a `GmiWarning` names the first number of each kind. On a GPU there is no warning,
    because the search would wait for the device.

    A simulator may change torch's default type: the change holds in its own `reset` and `step` only.

    `state_dict` is empty, because other libraries' simulators give no state away: a resumed run begins new episodes.

    Args:
        spec: The task's sizes.
        obs: The first observations, float32 `[N, O]`, finite or not. N and the device are taken from them.
        action_space: Of one environment, with `low` and `high` of its continuous numbers.
    """

    episode_length: Tensor
    counts_by_itself = True

    def __init__(self, spec: TaskSpec, obs: Tensor, action_space: Any) -> None:
        self.spec, self.num_env, self.device = spec, len(obs), obs.device
        self._seen, self._is_on_host = spec.observation, obs.device.type == "cpu"
        self._weights = finite_weights(self._seen.vector_size, obs.device)
        self._notices, self._steps = Notices(spec.name), 0
        self._default_dtype = torch.get_default_dtype()
        self.obs = torch.zeros_like(obs)
        self._every = torch.ones(self.num_env, dtype=torch.bool, device=self.device)
        self._begin_with(obs)
        self.episode_length = torch.zeros(self.num_env, dtype=torch.int64, device=self.device)
        low, high = (bound.to(self.device) for bound in bounds_of(action_space))
        is_bounded = low.isfinite() & high.isfinite()
        last = torch.tensor(spec.action.categories, device=self.device) - 1.0
        self._scale = torch.cat((torch.where(is_bounded, (high - low) / 2, 1.0), torch.ones_like(last)))
        self._offset = torch.cat((torch.where(is_bounded, (high + low) / 2, 0.0), torch.zeros_like(last)))
        self._least = torch.cat((torch.where(is_bounded, -1.0, -torch.inf), torch.zeros_like(last)))
        self._most = torch.cat((torch.where(is_bounded, 1.0, torch.inf), last))

    @torch.no_grad()
    def reset(self) -> Tensor:
        """See `Task.reset`."""
        self._steps = 0
        with self._simulators_dtype():
            obs = self._begin()
        self._begin_with(obs)
        self.episode_length.zero_()
        return self.obs

    def _begin_with(self, obs: Tensor) -> None:
        """Set the first observations of all environments, finite or not."""
        self._is_lost = self._is_bad_next = ~self._set_obs(obs)
        self._is_any_odd = self._is_on_host and bool(self._is_lost.any())

    @torch.no_grad()
    def step(self, action: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor, dict[str, Tensor]]:
        """See `Task.step`. Steps that begin an episode are truncated, with `valid` and `bad` False."""
        action = checked_action(action, self).clamp(self._least, self._most)
        is_finite = action.isfinite()
        is_usual = self._is_on_host and bool(is_finite.all()) and not self._is_any_odd
        if not is_usual:
            action = action.masked_fill(~is_finite.all(1)[:, None], 0.0)
        with self._simulators_dtype():
            outcome = self._simulate(torch.addcmul(self._offset, action, self._scale))
        self._steps += 1
        if is_usual and self._is_usual(outcome):
            return self._usual(outcome)
        return self._judged(outcome, ~is_finite.all(1))

    def _is_usual(self, outcome: Outcome) -> bool:
        """Whether all environments of the host took a step of an episode, with all numbers in range."""
        has_begun = outcome.began is not None and bool(outcome.began.any())
        if has_begun or outcome.absent is not None:
            return False
        return (
            torch.equal(outcome.reward, outcome.reward.clamp(-LARGEST, LARGEST))
            and self._is_in_range(outcome.obs)
            and (outcome.final_obs is outcome.obs or self._is_in_range(outcome.final_obs))
            and (not self._seen.of_kind("mask") or bool(self._allows(outcome.obs).all()))
        )

    def _usual(self, outcome: Outcome) -> tuple[Tensor, Tensor, Tensor, Tensor, dict[str, Tensor]]:
        """What `_judged` returns for a usual step, by a fifth of its calls, which take longer than small simulators."""
        truncated = outcome.truncated & ~outcome.terminated
        self.obs = self._clamped(outcome.obs)
        self._count(outcome.terminated | truncated)
        info = {"final_obs": self._clamped(outcome.final_obs), "bad": ~self._every, "valid": self._every.clone()}
        if outcome.own_reward is not None and outcome.own_end is not None:
            info |= {"own_reward": outcome.own_reward.clone(), "own_end": outcome.own_end.clone()}
        return self.obs, outcome.reward.clone(), outcome.terminated.clone(), truncated, info

    def _judged(self, outcome: Outcome, is_broken: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor, dict[str, Tensor]]:
        """What a step returns; `is_broken [N]`: no finite action was given."""
        wrong = ~self._sums(outcome.final_obs, outcome.reward).isfinite()
        reward = outcome.reward.clamp(-LARGEST, LARGEST)
        if self._is_on_host and (wrong.any() or not torch.equal(reward, outcome.reward)):
            self._notices.look(self._steps, self._vectors(outcome.final_obs), outcome.reward)
        begins = outcome.terminated | outcome.truncated if outcome.own_end is None else outcome.own_end
        if outcome.began is not None:
            begins = outcome.began
        bad = is_broken | (wrong & ~self._is_lost) | self._is_bad_next
        valid = ~(bad | wrong | self._is_lost)
        if outcome.began is not None:
            valid &= ~begins
        if outcome.absent is not None:
            valid &= ~outcome.absent
            bad &= ~outcome.absent
        terminated = outcome.terminated & valid
        truncated = ~valid | (outcome.truncated & ~terminated)
        final_obs = self._where(bad | wrong, self.obs, self._clamped(outcome.final_obs))
        # an environment that uses the next step to begin an episode takes no action, whatever a mask says
        idle = outcome.gone if outcome.began is None else outcome.terminated | outcome.truncated
        is_finite = self._set_obs(outcome.obs, idle)
        if outcome.renewed is not None:
            begins = begins | outcome.renewed
        self._is_lost = ~is_finite | ((self._is_lost | wrong) & ~begins)
        self._is_bad_next = ~is_finite & (begins | ~wrong) & ~bad
        self._is_any_odd = self._is_on_host and bool((self._is_lost | self._is_bad_next).any())
        self._count(terminated | truncated)
        info = {"final_obs": final_obs, "bad": bad, "valid": valid}
        if outcome.own_reward is not None and outcome.own_end is not None:
            info |= {"own_reward": outcome.own_reward.masked_fill(~valid, 0.0), "own_end": outcome.own_end | ~valid}
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
        if self._default_dtype != ours:
            torch.set_default_dtype(self._default_dtype)
        try:
            yield
        finally:
            self._default_dtype = torch.get_default_dtype()
            if self._default_dtype != ours:
                torch.set_default_dtype(ours)

    def _set_obs(self, obs: Tensor, idle: Tensor | None = None) -> Tensor:
        """Set the current observations from raw ones `[N, O]` where one can act on them. Returns where, bool `[N]`.

        One cannot where a number is not finite, or a mask allows nothing, unless the environment is `idle [N]`.
        """
        sums, clamped = self._sums(obs), self._clamped(obs)
        is_finite = sums.isfinite()
        if self._seen.of_kind("mask"):
            allows = self._allows(obs) if idle is None else self._allows(obs) | idle
            is_finite &= allows
            if self._is_on_host and not allows.all():
                self._notices.tell_forbidden(self._steps, allows)
        self.obs = self._where(is_finite, clamped, self.obs)
        if self._is_on_host and not torch.equal(sums, self._sums(clamped)):
            self._notices.look(self._steps, self._vectors(obs))
        return is_finite

    def _vectors(self, obs: Tensor) -> Tensor:
        """The numbers of observations that may be other than finite: `[N, V]`."""
        if self._seen.is_vector:
            return obs
        parts = parts_of(obs, self._seen)
        rows = [parts[part.name] for part in self._seen.of_kind("vector")]
        return torch.cat(rows, 1) if rows else torch.zeros(len(obs), 0, device=obs.device)

    def _allows(self, obs: Tensor) -> Tensor:
        """Whether masks allow a category of each choice, bool `[N]`."""
        parts = parts_of(obs, self._seen)
        masks = torch.cat([parts[mask.name] for mask in self._seen.of_kind("mask")], 1)
        return torch.stack(
            [each.bool().any(1) for each in torch.split(masks, list(self.spec.action.categories), 1)]
        ).all(0)

    def _sums(self, obs: Tensor, reward: Tensor | None = None) -> Tensor:
        return weighed_sums(self._vectors(obs), self._weights, reward)

    def _is_in_range(self, obs: Tensor) -> bool:
        """Whether all numbers are finite and within `LARGEST`."""
        if not self._seen.vector_size:
            return True
        numbers = self._vectors(obs)
        return torch.equal(numbers, numbers.clamp(-LARGEST, LARGEST))

    def _clamped(self, obs: Tensor) -> Tensor:
        """Observations whose vectors are within `LARGEST`; those without vectors are not copied."""
        if self._seen.is_vector:
            return obs.clamp(-LARGEST, LARGEST)
        if not self._seen.vector_size:
            return obs
        copied = obs.clone()
        parts = parts_of(copied, self._seen)
        for part in self._seen.of_kind("vector"):
            parts[part.name].clamp_(-LARGEST, LARGEST)
        return copied

    def _where(self, condition: Tensor, these: Tensor, others: Tensor) -> Tensor:
        """Rows of `these` where the condition `[N]` holds, else of `others`; without a copy where it can."""
        if self._is_on_host and not self._seen.is_vector:
            if condition.all():
                return these
            if not condition.any():
                return others
        return torch.where(condition.view(-1, *[1] * len(self._seen.shape)), these, others)

    def _count(self, ended: Tensor) -> None:
        self.episode_length += 1
        self.episode_length.masked_fill_(ended, 0)
