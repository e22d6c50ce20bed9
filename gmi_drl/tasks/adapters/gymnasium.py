"""gymnasium's environments as tasks: `gymnasium:HalfCheetah-v5`, or any `VectorEnv` of yours.

The environments of a GMI step one after the other in its process (`SyncVectorEnv`). GMIs step in parallel.
"""

import re
from collections.abc import Mapping
from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from gmi_drl.config.task_section import USUAL_SETTINGS, TaskSettings
from gmi_drl.errors import GmiError, MachineError, UsageError, did_you_mean, not_importable, place_of
from gmi_drl.tasks.adapters.base import AdaptedTask, Outcome
from gmi_drl.tasks.adapters.call_recorder import CallRecorders
from gmi_drl.tasks.adapters.spaces import ActionSpace, ObservationSpace
from gmi_drl.tasks.adapters.specs import in_words, sized
from gmi_drl.workload import TaskSpec

if TYPE_CHECKING:
    from gymnasium.vector import VectorEnv

SAME_STEP, NEXT_STEP, DISABLED = "SameStep", "NextStep", "Disabled"
"""Values of gymnasium's `AutoresetMode`: when an environment begins its next episode."""

RUNNERS = ("Ant", "HalfCheetah", "Hopper", "Humanoid", "Walker2d")
"""Robots whose reward is mainly a speed in m/s, as our Ant's is: they get its scale of rewards."""

NO_ARGUMENTS: Mapping[str, Any] = MappingProxyType({})

INSTALL = "pip install 'gmi-drl[gymnasium]'"
_ROBOTS = f"gymnasium's own robots: {INSTALL}"


class GymnasiumTask(AdaptedTask):
    """A `VectorEnv` of gymnasium as a `Task`, in any autoreset mode.

    Args:
        envs: N environments, with their mode in `metadata["autoreset_mode"]`. They are reset.
        spec: The task's sizes; None takes them from the spaces.
        device: The device of the task's tensors; the environments' own are NumPy arrays.
        seed: Seed of the first reset; None leaves it to the environments.
        recorders: The environments' call recorders, by which errors name the environment that failed.
        channels: See `ObservationSpace`.

    Raises:
        UsageError: a space is not supported, or the autoreset mode is unknown.
        GmiError: an environment fails, now or later, or returns values of another form than gymnasium's.
    """

    def __init__(
        self,
        envs: "VectorEnv[Any, Any, Any]",
        spec: TaskSpec | None = None,
        *,
        device: str = "cpu",
        seed: int | None = 0,
        recorders: CallRecorders | None = None,
        channels: str | None = None,
    ) -> None:
        spec = spec or _spec_of_envs(envs)
        self.envs, self._recorders = envs, recorders or CallRecorders()
        self._mode = _autoreset_mode(envs, spec.name)
        self._obs_space = ObservationSpace(spec.name, envs.single_observation_space, channels)
        self._action_space = ActionSpace(spec.name, envs.single_action_space)
        self._device = torch.device(device)
        self._has_ended = np.zeros(envs.num_envs, dtype=np.bool_)
        with self._recorders.named(spec.name):
            obs = self._observation(envs.reset(seed=seed)[0])
        super().__init__(spec, obs, self._action_space)

    def close(self) -> None:
        """See `Task.close`."""
        self.envs.close()

    def _begin(self) -> Tensor:
        self._has_ended[:] = False
        with self._recorders.named(self.spec.name):
            return self._observation(self.envs.reset()[0])

    def _simulate(self, action: Tensor) -> Outcome:
        with self._recorders.named(self.spec.name):
            return self._step(action)

    def _step(self, action: Tensor) -> Outcome:
        obs, reward, terminated, truncated, infos = self.envs.step(self._action_space.nested(action))
        ended, seen = terminated | truncated, self._observation(obs)
        outcome = Outcome(
            obs=seen,
            reward=self._tensor(reward),
            terminated=self._tensor(terminated, torch.bool),
            truncated=self._tensor(truncated, torch.bool),
            final_obs=seen,
        )
        if self._mode == SAME_STEP and ended.any():
            outcome.final_obs = seen.clone()
            last = self._obs_space.tensor_of(infos["final_obs"], ended.nonzero()[0].tolist(), self._device)
            outcome.final_obs[self._tensor(ended, torch.bool)] = last
        if self._mode == NEXT_STEP:
            outcome.began, self._has_ended = self._tensor(self._has_ended, torch.bool), ended
        if self._mode == DISABLED:
            is_finite = self._sums(seen).isfinite().cpu().numpy() & np.isfinite(reward)
            begins = ended | ~is_finite
            outcome.truncated |= self._tensor(~is_finite, torch.bool)
            if begins.any():
                outcome.obs = self._observation(self.envs.reset(options={"reset_mask": begins})[0])
        return self._learnt(outcome, infos)

    def _learnt(self, outcome: Outcome, infos: Any) -> Outcome:
        """What is learnt from an outcome, given the infos of the step."""
        return outcome

    def _observation(self, array: Any) -> Tensor:
        """Observations `[N, *shape]` on the device."""
        return self._obs_space.tensor(array, self._device)

    def _tensor(self, array: Any, dtype: torch.dtype = torch.float32) -> Tensor:
        """A copy of an array on the device: environments may overwrite theirs."""
        return torch.from_numpy(np.asarray(array)).to(self._device, dtype, copy=True)


def make_task(
    rest: str,
    *,
    num_env: int,
    device: str,
    seed: int,
    threads: int,
    arguments: Mapping[str, Any] = NO_ARGUMENTS,
    settings: TaskSettings = USUAL_SETTINGS,
) -> GymnasiumTask:
    """Make the task `gymnasium:REST`.

    Args:
        rest: An id of gymnasium's registry. `module:id` imports the module first, which must be installed or in a
            folder of PYTHONPATH: nothing is imported from the working directory. An id with only a vector entry point
            is made by that.
        num_env: Number of environments N.
        device: The device of the tensors.
        seed: Seed of the first reset.
        threads: Has no effect, see the module.
        arguments: Go to `gymnasium.make`, and by that to the environment's constructor.
        settings: The section `task` of the configuration.

    Raises:
        UsageError: there is no such environment, a space is not supported, or arguments are missing.
        MachineError: gymnasium, or a package that the environment needs, is not installed.
        GmiError: the environment cannot be made, or its first reset fails.
    """
    try:
        import gymnasium
    except ImportError as error:
        raise not_importable("gymnasium", "gymnasium", error, INSTALL) from error

    name, recorders = f"gymnasium:{rest}", CallRecorders()
    if ":" in rest:
        _import(name, rest.partition(":")[0])
    try:
        envs = _make_envs(rest, num_env, arguments, recorders)
    except gymnasium.error.UnregisteredEnv:
        raise UsageError(f"gymnasium has no {rest!r}{did_you_mean(rest, gymnasium.registry)}") from None
    except (gymnasium.error.DependencyNotInstalled, ImportError) as error:
        remedy = "install it" if ":" in rest else _ROBOTS
        raise MachineError(f"{name} needs a package: {error} ({place_of(error)}); {remedy}") from error
    except gymnasium.error.Error as error:
        raise UsageError(f"{name} cannot be made: {error}") from error
    except Exception as error:  # an environment may raise anything
        raise _failure(name, error) from error
    env: Any = envs.envs[0] if hasattr(envs, "envs") else envs
    limit = env.spec.max_episode_steps if env.spec else None
    channels, step_s = settings.channels, getattr(env.unwrapped, "dt", 0.0)
    spec = spec_of_spaces(name, envs, limit, step_s, reward_scale_of(rest), channels)
    return GymnasiumTask(envs, spec, device=device, seed=seed, recorders=recorders, channels=channels)


def _make_envs(
    rest: str, num_env: int, arguments: Mapping[str, Any], recorders: CallRecorders
) -> "VectorEnv[Any, Any, Any]":
    import gymnasium
    from gymnasium.vector import AutoresetMode, SyncVectorEnv

    about = gymnasium.registry.get(rest.rpartition(":")[2])
    if about and about.entry_point is None and about.vector_entry_point is not None:
        return gymnasium.make_vec(rest, num_env, vectorization_mode="vector_entry_point", **arguments)
    make: list[Any] = [lambda: recorders.record(gymnasium.make(rest, **arguments))] * num_env
    return SyncVectorEnv(make, autoreset_mode=AutoresetMode.SAME_STEP)


def _import(name: str, module: str) -> None:
    """Import the module of a task. Raises MachineError if it is not found or its import fails."""
    try:
        import_module(module)
    except Exception as error:  # a module may raise anything
        remedy = f"install it, or name the folder of {module.partition('.')[0]} in PYTHONPATH"
        raise not_importable(f"{name}: the module {module}", module, error, remedy) from error


def _failure(name: str, error: Exception) -> GmiError:
    """The error for an exception of an environment's constructor, with the `--env-arg` to change if that helps."""
    message = f"{name} cannot be made: {type(error).__name__}: {error}"
    if isinstance(error, TypeError) and (
        lacks := re.search(r"missing \d+ required .*?: (.*?)( was raised|$)", str(error))
    ):
        given = " ".join(f"--env-arg {argument}=VALUE" for argument in re.findall(r"'(\w+)'", lacks[1]))
        return UsageError(f"{message}; give the missing arguments: {given}")
    if isinstance(error, TypeError) and re.search("unexpected keyword argument|multiple values for", str(error)):
        return UsageError(f"{message}; leave that --env-arg out")
    return GmiError(f"{message} ({place_of(error.__context__ or error)})")  # gymnasium re-raises some errors


def reward_scale_of(environment: str) -> float:
    """The scale of rewards for an id of gymnasium or envpool; 1 for `module:id`, whose rewards may differ."""
    return 0.05 if environment.partition("-")[0] in RUNNERS else 1.0


def _spec_of_envs(envs: "VectorEnv[Any, Any, Any]") -> TaskSpec:
    about = envs.spec
    name, steps = ("gymnasium", None) if about is None else (f"gymnasium:{about.id}", about.max_episode_steps)
    return spec_of_spaces(name, envs, steps)


def spec_of_spaces(
    name: str,
    envs: Any,
    episode_steps: int | None,
    step_s: float = 0.0,
    reward_scale: float = 1.0,
    channels: str | None = None,
) -> TaskSpec:
    """The sizes of a task, from the spaces of one of its environments.

    Raises:
        UsageError: A space is not supported.
    """
    seen = ObservationSpace(name, envs.single_observation_space, channels)
    acts = ActionSpace(name, envs.single_action_space)
    return sized(name, seen.observation, acts.action, in_words(acts), episode_steps, step_s, reward_scale)


def _autoreset_mode(envs: "VectorEnv[Any, Any, Any]", name: str) -> str:
    mode = envs.metadata.get("autoreset_mode")
    value = str(getattr(mode, "value", mode))
    if value not in (SAME_STEP, NEXT_STEP, DISABLED):
        raise UsageError(
            f"{name}: metadata['autoreset_mode'] is {mode!r}, but must be one of gymnasium's AutoresetMode, because "
            "it decides when the next episode begins"
        )
    return value
