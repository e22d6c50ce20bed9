"""MuJoCo Playground's tasks for gmi-drl: `playground:WalkerWalk`, simulated by MJX through JAX on the cores of a GMI.

An environment of Playground is two pure functions of one world, `reset(key)` and `step(state, action)`; `vmap` makes N
worlds of it. Who batches decides how episodes end. Here a world begins anew in the step in which its episode ended, by
a whole `reset` with the next random key of that world, and the last observation is kept. Playground's own wrapper for
training goes back to the first state that the world ever had, unless told otherwise, and gives no last observation.
"""

import subprocess
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, NamedTuple

import jax
import torch
from jax import numpy as jnp
from mujoco_playground import dm_control_suite, locomotion, manipulation, registry
from torch import Tensor

from gmi_drl.errors import MachineError, UsageError, did_you_mean
from gmi_drl.tasks.adapters.base import AdaptedTask, Outcome
from gmi_drl.tasks.adapters.specs import spec_of

MOST_SEEDS = 2**31
SEEN = "state"
"""The group of observations that the policy sees, where an environment has several."""

jax.config.update("jax_platforms", "cpu")


class Box(NamedTuple):
    """What `gmi_drl` wants to know of a space."""

    shape: tuple[int, ...]
    low: float
    high: float


class Worlds(NamedTuple):
    """N worlds, as JAX has them.

    Args:
        keys: Random keys for the episodes to come, uint32 `[N, 2]`.
        state: Playground's `State`, every leaf `[N, ...]`.
    """

    keys: jax.Array
    state: Any


class Compiled(NamedTuple):
    """An environment, and what is compiled once for all tasks that are made of it."""

    env: Any
    begin: Callable[[jax.Array], Worlds]
    step: Callable[[Worlds, jax.Array, jax.Array], tuple[Worlds, tuple[jax.Array, ...]]]


class PlaygroundTask(AdaptedTask):
    """N worlds of an environment of Playground as a `gmi_drl.tasks.Task`.

    Args:
        name: In Playground's registry.
        num_env: N.
        device: Where the tensors live. Worlds are simulated on the CPU.
        seed: Decides every random draw.

    Raises:
        UsageError: its observations are of groups of which none is `state`.
        MachineError: its models cannot be got.
    """

    counts_by_itself = False

    def __init__(self, name: str, num_env: int, device: str, seed: int) -> None:
        self._compiled = _compiled(name)
        keys = jax.random.split(jax.random.PRNGKey(seed % MOST_SEEDS), num_env)
        # Committed to a device, as what comes from torch is: else the second step would be compiled once more.
        self._keys = jax.device_put(keys, jax.devices()[0])
        self._device = torch.device(device)
        env, steps = self._compiled.env, int(registry.get_default_config(name).episode_length)
        actions = Box((env.action_size,), -1.0, 1.0)  # which Playground's own learners clip to
        obs = self._begin()
        seen = Box(tuple(obs.shape[1:]), -torch.inf, torch.inf)
        super().__init__(spec_of(f"playground:{name}", seen, actions, episode_steps=steps, step_s=env.dt), obs, actions)

    def close(self) -> None:
        """See `Task.close`; JAX frees the worlds with the last reference."""

    def _begin(self) -> Tensor:
        self._worlds = self._compiled.begin(self._keys)
        self._keys = self._worlds.keys
        return self._tensor(_seen(self._worlds.state))

    def _simulate(self, action: Tensor) -> Outcome:
        at_limit = self.episode_length + 1 >= self.spec.episode_steps
        told = (jnp.from_dlpack(tensor.cpu()) for tensor in (action, at_limit))
        self._worlds, (obs, reward, done, ended, last) = self._compiled.step(self._worlds, *told)
        self._keys = self._worlds.keys
        return Outcome(*map(self._tensor, (obs, reward, done, ended, last)))

    def _tensor(self, array: jax.Array) -> Tensor:
        """A copy on the device, since JAX's arrays must not be written to."""
        return torch.from_dlpack(array.block_until_ready()).to(self._device, copy=True)


@cache
def _compiled(name: str) -> Compiled:
    env = _load(name)

    def begin(keys: jax.Array) -> Worlds:
        keys, now = jnp.moveaxis(jax.vmap(jax.random.split)(keys), 1, 0)
        return Worlds(keys, jax.vmap(env.reset)(now))

    def step(worlds: Worlds, action: jax.Array, at_limit: jax.Array) -> tuple[Worlds, tuple[jax.Array, ...]]:
        state = jax.vmap(env.step)(worlds.state, action)
        last, done = _seen(state), state.done > 0
        reward = state.reward.astype(jnp.float32)
        is_wrong = ~(jnp.isfinite(last).all(1) & jnp.isfinite(reward))
        ended = done | at_limit | is_wrong  # what went wrong begins anew, too
        after = Worlds(worlds.keys, state)
        # Outside of vmap a condition is a branch: steps in which no episode ends cost no reset.
        after = jax.lax.cond(ended.any(), lambda: _where(ended, begin(worlds.keys), after), lambda: after)
        return after, (_seen(after.state), reward, done, ended, last)

    return Compiled(env, jax.jit(begin), jax.jit(step))


def _where(chosen: jax.Array, new: Worlds, old: Worlds) -> Worlds:
    """The new ones of the chosen worlds `[N]`, else the old ones."""

    def pick(new: jax.Array, old: jax.Array) -> jax.Array:
        return jnp.where(chosen.reshape(-1, *[1] * (old.ndim - 1)), new, old).astype(old.dtype)

    return jax.tree.map(pick, new, old)


def _seen(state: Any) -> jax.Array:
    """What the policy sees, float32 `[N, O]`."""
    obs = state.obs[SEEN] if isinstance(state.obs, Mapping) else state.obs
    return obs.astype(jnp.float32).reshape(len(obs), -1)


def _load(name: str) -> Any:
    """The environment, with MJX's physics in JAX: Warp's, its default, is for GPUs and slow on a CPU."""
    try:
        env = registry.load(name, config_overrides={"impl": "jax"})
    except (subprocess.CalledProcessError, OSError) as error:
        raise MachineError(
            f"playground:{name} cannot be made: {error}. Playground clones MuJoCo Menagerie, which has its "
            "robots, from github.com when it needs one: make the task once where that can be reached"
        ) from error
    size = env.observation_size
    if isinstance(size, Mapping) and SEEN not in size:
        raise UsageError(f"playground:{name}: its observations are {', '.join(size)}: supported is {SEEN!r}")
    return env


def make_task(rest: str, *, num_env: int, device: str, seed: int, threads: int) -> PlaygroundTask:
    """The task `playground:REST`; `REST` is a name of Playground's registry.

    `threads` changes nothing: XLA takes the cores that the process may use, which are those of its GMI.

    Raises:
        UsageError: there is no such environment, or none that can be trained.
        MachineError: its models cannot be got.
    """
    known = (*dm_control_suite.ALL_ENVS, *locomotion.ALL_ENVS, *manipulation.ALL_ENVS)
    if rest not in known:
        raise UsageError(f"MuJoCo Playground has no {rest!r}{did_you_mean(rest, known)}")
    return PlaygroundTask(rest, num_env, device, seed)
