"""gymnasium's vector environments as tasks: `gymnasium:HalfCheetah-v5`, or any `VectorEnv` that you have.

Environments run one after the other in the process of their GMI (`SyncVectorEnv`): on the cores that a GMI has, its
processes are the parallel ones.
"""

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from gmi_drl.errors import MachineError, UsageError, did_you_mean
from gmi_drl.tasks.adapters.base import AdaptedTask, Outcome, spec_of
from gmi_drl.workload import TaskSpec

if TYPE_CHECKING:
    from gymnasium.vector import VectorEnv

SAME_STEP, NEXT_STEP, DISABLED = "SameStep", "NextStep", "Disabled"
"""Values of gymnasium's `AutoresetMode`: when a world that ended begins its next episode."""

RUNNERS = ("Ant", "HalfCheetah", "Hopper", "Humanoid", "Walker2d")
"""Robots whose reward is a speed in m/s and some more, as our Ant's is: they get its scale of rewards."""

INSTALL = "pip install 'gmi-drl[gymnasium]'"
_ROBOTS = f"gymnasium's own robots: {INSTALL}"


class GymnasiumTask(AdaptedTask):
    """A vector environment of gymnasium's interface, whichever its autoreset mode, as a `Task`.

    Args:
        envs: N environments with boxes for spaces; `metadata["autoreset_mode"]` says how they reset. They are reset.
        spec: Sizes; None takes them from the spaces.
        device: Where the tensors live; the environments' are NumPy arrays.
        seed: Of the first reset; None leaves it to the environments.

    Raises:
        UsageError: the spaces are no boxes, or the autoreset mode is unknown.
    """

    def __init__(
        self,
        envs: "VectorEnv[Any, Any, Any]",
        spec: TaskSpec | None = None,
        *,
        device: str = "cpu",
        seed: int | None = 0,
    ) -> None:
        spec = spec or _spec_of_envs(envs)
        self.envs = envs
        self._mode = _autoreset_mode(envs, spec.name)
        self._action_space: Any = envs.single_action_space
        self._device = torch.device(device)
        self._has_ended = np.zeros(envs.num_envs, dtype=np.bool_)
        super().__init__(spec, self._observation(envs.reset(seed=seed)[0]), self._action_space)

    def close(self) -> None:
        """See `Task.close`."""
        self.envs.close()

    def _begin(self) -> Tensor:
        self._has_ended[:] = False
        return self._observation(self.envs.reset()[0])

    def _simulate(self, action: Tensor) -> Outcome:
        space = self._action_space
        shaped = action.cpu().numpy().reshape(self.num_env, *space.shape).astype(space.dtype)
        within = np.clip(shaped, space.low, space.high)  # rounding may leave a bound by a digit, which some refuse
        obs, reward, terminated, truncated, infos = self.envs.step(within)
        ended = terminated | truncated
        told = Outcome(
            obs=self._observation(obs),
            reward=self._tensor(reward),
            terminated=self._tensor(terminated, torch.bool),
            truncated=self._tensor(truncated, torch.bool),
            final_obs=self._observation(obs),
        )
        if self._mode == SAME_STEP and ended.any():
            last = np.stack(infos["final_obs"][ended])  # an array of arrays, in gymnasium's own
            told.final_obs[self._tensor(ended, torch.bool)] = self._tensor(last).reshape(len(last), -1)
        if self._mode == NEXT_STEP:
            told.began, self._has_ended = self._tensor(self._has_ended, torch.bool), ended
        if self._mode == DISABLED:
            is_finite = np.isfinite(obs).reshape(self.num_env, -1).all(1) & np.isfinite(reward)
            begins = ended | ~is_finite
            told.truncated |= self._tensor(~is_finite, torch.bool)
            told.obs = (
                self._observation(self.envs.reset(options={"reset_mask": begins})[0]) if begins.any() else told.obs
            )
        return told

    def _observation(self, array: Any) -> Tensor:
        """Float32 `[N, O]` on the device."""
        return self._tensor(array).reshape(self.envs.num_envs, -1)

    def _tensor(self, array: Any, dtype: torch.dtype = torch.float32) -> Tensor:
        """A copy on the device: environments may write to theirs again."""
        return torch.from_numpy(np.asarray(array)).to(self._device, dtype, copy=True)


def make_task(rest: str, *, num_env: int, device: str, seed: int, threads: int) -> GymnasiumTask:
    """The task `gymnasium:REST`; `REST` is an id of gymnasium's registry, `module:id` imports the module first.

    The module is installed or in a folder of PYTHONPATH: a name in a file imports nothing from the working directory.

    `threads` changes nothing, see the module.

    Raises:
        UsageError: there is no such environment, or it has other spaces than boxes.
        MachineError: gymnasium, or what the environment needs, is not installed.
    """
    try:
        import gymnasium
        from gymnasium.vector import AutoresetMode, SyncVectorEnv
    except ImportError as error:
        raise MachineError(f"gymnasium is not installed: {INSTALL}") from error

    name = f"gymnasium:{rest}"
    try:
        envs = SyncVectorEnv([partial(gymnasium.make, rest)] * num_env, autoreset_mode=AutoresetMode.SAME_STEP)
    except gymnasium.error.UnregisteredEnv:
        raise UsageError(f"gymnasium has no {rest!r}{did_you_mean(rest, gymnasium.registry)}") from None
    except (gymnasium.error.DependencyNotInstalled, ImportError) as error:
        remedy = f"name the folder of {rest.partition(':')[0]} in PYTHONPATH" if ":" in rest else _ROBOTS
        raise MachineError(f"{name} needs what is not installed: {error}; {remedy}") from error
    except gymnasium.error.Error as error:
        raise UsageError(f"{name} cannot be made: {error}") from error
    about = envs.envs[0].spec
    spec = spec_of(
        name,
        envs.single_observation_space,
        envs.single_action_space,
        episode_steps=about.max_episode_steps if about else None,
        step_s=getattr(envs.envs[0].unwrapped, "dt", 0.0),
        reward_scale=reward_scale_of(rest),
    )
    return GymnasiumTask(envs, spec, device=device, seed=seed)


def reward_scale_of(environment: str) -> float:
    """The scale of rewards for an id of gymnasium's or envpool's."""
    return 0.05 if environment.partition("-")[0] in RUNNERS else 1.0


def _spec_of_envs(envs: "VectorEnv[Any, Any, Any]") -> TaskSpec:
    about = envs.spec
    name, steps = ("gymnasium", None) if about is None else (f"gymnasium:{about.id}", about.max_episode_steps)
    return spec_of(name, envs.single_observation_space, envs.single_action_space, episode_steps=steps, step_s=0.0)


def _autoreset_mode(envs: "VectorEnv[Any, Any, Any]", name: str) -> str:
    mode = envs.metadata.get("autoreset_mode")
    value = str(getattr(mode, "value", mode))
    if value not in (SAME_STEP, NEXT_STEP, DISABLED):
        raise UsageError(
            f"{name}: metadata['autoreset_mode'] is {mode!r}: gymnasium's AutoresetMode says how worlds begin anew"
        )
    return value
