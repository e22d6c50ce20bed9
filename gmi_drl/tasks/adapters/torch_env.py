"""Environments whose tensors stay on the device, as Isaac Lab and mjlab make them, as tasks.

Worlds begin anew within the step, and what is returned is the observation after that. The last observation of an
episode is known only where the environment gives it (`extras["final_obs"]`, Isaac Lab 3 with `compute_final_obs`).
Elsewhere `final_obs` is the observation before the step, so that a time-out is followed by the value one step earlier,
as in rsl_rl. Where the time limit is the task's own end (`cfg.is_finite_horizon`), it is told as one. Nothing here
waits for the device.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from gmi_drl.errors import UsageError
from gmi_drl.tasks.adapters.base import AdaptedTask, Outcome, spec_of
from gmi_drl.tasks.finite import LARGEST


class TorchEnvTask(AdaptedTask):
    """An environment of Isaac Lab (direct or manager-based) or mjlab as a `Task`.

    `episode_length` is the environment's own `episode_length_buf`: writing it staggers the episodes.

    Args:
        env: With `reset() -> (obs, extras)`, `step(action) -> (obs, reward, terminated, truncated, extras)`,
            `max_episode_length`, `episode_length_buf`, `step_dt` and the spaces of one world. It is reset.
        name: Of the task.
        groups: Names of the group of observations that the policy sees; the first that there is counts.

    Attributes:
        knows_final_obs: Whether the environment says that it gives the last observation of an episode.
        log: What the environment has told rsl_rl's logger in the last step (`extras["log"]`): terms of the reward,
            curricula.

    Raises:
        UsageError: there is no such group, or a space is no box.
    """

    counts_by_itself = False

    def __init__(self, env: Any, name: str, groups: Sequence[str] = ("policy", "actor")) -> None:
        self.env = env
        self._is_finite = bool(getattr(getattr(env, "cfg", None), "is_finite_horizon", False))
        self.knows_final_obs = bool(getattr(getattr(env, "cfg", None), "compute_final_obs", False))
        self.log: Mapping[str, Any] = {}
        spaces = getattr(env.single_observation_space, "spaces", None)
        found = [group for group in groups if isinstance(spaces, Mapping) and group in spaces]
        if not found:
            raise UsageError(
                f"{name}: its observations are {env.single_observation_space}: supported is a Dict with "
                f"{' or '.join(repr(group) for group in groups)}"
            )
        self._group = found[0]
        assert spaces is not None
        spec = spec_of(
            name,
            spaces[self._group],
            env.single_action_space,
            episode_steps=int(env.max_episode_length),
            step_s=env.step_dt,
        )
        super().__init__(spec, self._begin(), env.single_action_space)
        self.episode_length = env.episode_length_buf

    @property
    def groups(self) -> dict[str, Tensor]:
        """All groups of current observations by name, float32 `[N, ...]`, for learners that know more than one.

        What is not finite is 0, what is beyond `finite.LARGEST` is that.
        """
        tensors = {name: obs for name, obs in self._groups.items() if isinstance(obs, Tensor)}
        finite = {name: torch.nan_to_num(obs.float(), 0.0, 0.0, 0.0) for name, obs in tensors.items()}
        return {name: obs.clamp_(-LARGEST, LARGEST) for name, obs in finite.items()}

    def close(self) -> None:
        """See `Task.close`."""
        if self.env is not None:
            self.env.close()
            self.env = None

    def _begin(self) -> Tensor:
        self._groups = self.env.reset()[0]
        obs = self._observed(self._groups).clone()  # the environment writes the next one over it
        self.episode_length = self.env.episode_length_buf  # perhaps another tensor than before
        return obs

    def _simulate(self, action: Tensor) -> Outcome:
        self._groups, reward, terminated, truncated, extras = self.env.step(action)
        self.log = extras.get("log", {})
        if self._is_finite:
            terminated = terminated | truncated
        obs = self._observed(self._groups)
        last = self._observed(extras["final_obs"]) if "final_obs" in extras else self.obs
        final_obs = torch.where((terminated | truncated)[:, None], last, obs)
        return Outcome(obs, reward.float(), terminated.bool(), truncated.bool(), final_obs)

    def _count(self, ended: Tensor) -> None:
        self.episode_length = self.env.episode_length_buf  # the environment counts

    def _observed(self, groups: Mapping[str, Tensor]) -> Tensor:
        """What the policy sees, float32 `[N, O]`."""
        return groups[self._group].float().flatten(1)
