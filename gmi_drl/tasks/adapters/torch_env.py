"""Environments of Isaac Lab and mjlab as tasks. Their tensors stay on the device, and nothing here waits for it.

These environments begin the next episode within the step and return its first observation. They give the last
observation of the old episode only in `extras["final_obs"]` (Isaac Lab 3 with `compute_final_obs`). Without it
`final_obs` is the observation before the step, so that a time-out bootstraps from the value one step earlier, as in
rsl_rl. If the time limit is the task's own end (`cfg.is_finite_horizon`), episodes there are terminated, not truncated.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from gmi_drl.errors import UsageError
from gmi_drl.tasks.adapters.base import AdaptedTask, Outcome
from gmi_drl.tasks.adapters.specs import spec_of
from gmi_drl.tasks.finite import LARGEST


class TorchEnvTask(AdaptedTask):
    """An environment of Isaac Lab (direct or manager-based) or mjlab as a `Task`.

    `episode_length` is the environment's own `episode_length_buf`: writing to it staggers the episodes.

    Args:
        env: It has `reset() -> (obs, extras)`, `step(action) -> (obs, reward, terminated, truncated, extras)`,
            `max_episode_length`, `episode_length_buf`, `step_dt` and the spaces of one environment. It is reset.
        name: The task's name.
        groups: Names of groups of observations: the policy sees the first of them that the environment has.

    Attributes:
        knows_final_obs: Whether the environment is configured to give the last observation of an episode.
        log: What the environment sent to rsl_rl's logger in the last step (`extras["log"]`): terms of the reward,
            curricula.

    Raises:
        UsageError: the environment has none of these groups, or a space is no box.
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
                f"{' or '.join(repr(group) for group in groups)}: give a group of observations that name"
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
        """All groups of current observations by name, float32 `[N, ...]`, for learners that use several.

        Numbers that are not finite are replaced by 0; numbers beyond `finite.LARGEST` are clamped to it.
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
        obs = self._policy_obs(self._groups).clone()  # the environment overwrites it in the next step
        self.episode_length = self.env.episode_length_buf  # a reset may replace the tensor
        return obs

    def _simulate(self, action: Tensor) -> Outcome:
        self._groups, reward, terminated, truncated, extras = self.env.step(action)
        self.log = extras.get("log", {})
        if self._is_finite:
            terminated = terminated | truncated
        obs = self._policy_obs(self._groups)
        last = self._policy_obs(extras["final_obs"]) if "final_obs" in extras else self.obs
        final_obs = torch.where((terminated | truncated)[:, None], last, obs)
        return Outcome(obs, reward.float(), terminated.bool(), truncated.bool(), final_obs)

    def _count(self, ended: Tensor) -> None:
        self.episode_length = self.env.episode_length_buf  # the environment counts its own steps

    def _policy_obs(self, groups: Mapping[str, Tensor]) -> Tensor:
        """The observations that the policy sees, float32 `[N, O]`."""
        return groups[self._group].float().flatten(1)
