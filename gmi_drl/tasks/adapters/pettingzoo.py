"""PettingZoo's games as tasks: `pettingzoo:mpe2.simple_spread_v3`, any module with `parallel_env`.

All agents have one policy. E worlds of K agents are `N = E x K` rows, world by world. The rows of an agent that has
left are not `valid` until its world begins anew, which it does in the step in which the last agent leaves.
"""

from collections.abc import Mapping
from dataclasses import replace
from importlib import import_module
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from gmi_drl.config.task_section import USUAL_SETTINGS, TaskSettings
from gmi_drl.errors import GmiError, UsageError, not_importable, place_of
from gmi_drl.tasks.adapters.agents import AgentRows, AgentSpaces
from gmi_drl.tasks.adapters.base import AdaptedTask, Outcome
from gmi_drl.tasks.adapters.gymnasium import NO_ARGUMENTS
from gmi_drl.tasks.adapters.spaces import ActionSpace, ObservationSpace
from gmi_drl.tasks.adapters.specs import in_words, sized
from gmi_drl.tasks.terms import WorldReturns

INSTALL = "pip install 'gmi-drl[pettingzoo]'"


class ParallelTask(AdaptedTask):
    """Parallel worlds of PettingZoo as a `Task`.

    Args:
        worlds: E worlds. They are reset.
        name: The task's name.
        device: The device of the task's tensors.
        seed: Of the first reset; each world has the next one.
        settings: The section `task`.

    Attributes:
        reward_terms: Returns of worlds that have ended, by kind of agent.

    Raises:
        UsageError: See `AgentRows`, or a space is not supported.
        GmiError: A world fails, now or later.
    """

    def __init__(
        self,
        worlds: list[Any],
        name: str,
        *,
        device: str = "cpu",
        seed: int = 0,
        settings: TaskSettings = USUAL_SETTINGS,
    ) -> None:
        self._worlds, self._name, self._device = worlds, name, torch.device(device)
        self._ids: list[Any] = list(worlds[0].possible_agents)
        self._last = [self._reset(number, seed=seed + number) for number in range(len(worlds))]
        agents = [
            AgentSpaces(
                str(one),
                ObservationSpace(name, worlds[0].observation_space(one), settings.channels),
                ActionSpace(name, worlds[0].action_space(one)),
            )
            for one in self._ids
        ]
        self._agents, self._state = agents, _state_space(name, worlds[0], settings)
        self._rows = AgentRows(name, agents, settings, self._state.observation.parts[0] if self._state else None)
        self._is_here = np.ones((len(worlds), len(agents)), np.bool_)
        self._returns = np.zeros(self._is_here.shape, np.float32)
        self.reward_terms = WorldReturns([str(one) for one in self._ids], self._device)
        spec = sized(
            name,
            self._rows.observation,
            self._rows.acts.action,
            in_words(self._rows.acts),
            getattr(worlds[0].unwrapped, "max_cycles", None),
            0.0,
            agents=len(agents),
        )
        spec = replace(spec, agent_names=tuple(map(str, self._ids)))
        super().__init__(spec, self._observations(), self._rows.acts)

    def draw(self) -> npt.NDArray[np.uint8]:
        """The worlds' own pictures now, `[E, height, width, 3]`."""
        return np.stack([self._called(number, "render") for number in range(len(self._worlds))])

    def close(self) -> None:
        """See `Task.close`."""
        while self._worlds:
            self._worlds.pop().close()

    def _begin(self) -> Tensor:
        for number in range(len(self._worlds)):
            self._last[number] = self._reset(number)
        self._is_here[:] = True
        self._returns[:] = 0
        return self._observations()

    def _simulate(self, action: Tensor) -> Outcome:
        chosen, was_here = self._rows.actions(action), self._is_here.copy()
        told = np.zeros((3, *was_here.shape), np.float32)  # rewards, terminated, truncated
        over = [number for number in range(len(self._worlds)) if self._step_world(number, chosen, told[:, number])]
        final_obs = seen = self._observations()
        self._returns += told[0]
        if over:
            self.reward_terms.add_worlds(torch.from_numpy(self._returns[over]))
            self._returns[over] = 0
            for number in over:
                self._last[number] = self._reset(number)
                self._is_here[number] = True
            seen = self._observations()
        reward, terminated, truncated = torch.from_numpy(told).flatten(1).to(self._device)
        renewed = np.zeros_like(was_here)
        renewed[over] = True
        absent, gone, renewed_rows = (
            torch.from_numpy(rows).flatten().to(self._device) for rows in (~was_here, ~self._is_here, renewed)
        )
        ends = terminated > 0, truncated > 0
        return Outcome(seen, reward, *ends, final_obs, absent=absent, renewed=renewed_rows, gone=gone)

    def _step_world(self, number: int, chosen: list[Any], told: npt.NDArray[np.float32]) -> bool:
        """Step a world. Writes what its agents are told, `[3, K]`. Returns whether all have left."""
        here, world = self._is_here[number], self._worlds[number]
        actions = {one: _at(chosen[k], number) for k, one in enumerate(self._ids) if here[k]}
        obs, *outcome, _ = self._called(number, "step", actions)
        self._last[number] = {**self._last[number], **obs}
        left = set(self._ids) - set(world.agents)
        for k, one in enumerate(self._ids):
            if here[k]:
                told[:, k] = [float(of_all.get(one, 0.0)) for of_all in outcome]
                here[k] = one not in left
                if not here[k] and not told[1:, k].any():
                    told[2, k] = 1.0  # it has left without a reason
        return not world.agents

    def _observations(self) -> Tensor:
        from gymnasium.vector.utils import concatenate, create_empty_array

        seen = []
        for one, agent in zip(self._ids, self._agents, strict=True):
            space = self._worlds[0].observation_space(one)
            values = [last[one] for last in self._last]
            nested: Any = concatenate(space, values, cast(Any, create_empty_array(space, len(values))))
            seen.append(agent.seen.tensor(nested, self._device))
        state = None
        if self._state:
            state = self._state.tensor(np.stack([world.state() for world in self._worlds]), self._device)
        return self._rows.rows(seen, state)

    def _reset(self, number: int, **named: Any) -> Any:
        """Begin a world's episode. Returns the observations of its agents, all of which must be there."""
        seen = self._called(number, "reset", **named)[0]
        if missing := [str(one) for one in self._ids if one not in seen]:
            words = f"{', '.join(missing)} of its possible_agents {'is' if len(missing) == 1 else 'are'} not there"
            raise UsageError(f"{self._name}: world {number} begins without all agents: {words}, which is not supported")
        return seen

    def _called(self, number: int, method: str, *arguments: Any, **named: Any) -> Any:
        """What a method of a world returns. Raises GmiError with the world and its last words if it fails."""
        try:
            return getattr(self._worlds[number], method)(*arguments, **named)
        except Exception as error:  # a world may raise anything
            words = f"{type(error).__name__}: {error} ({place_of(error)})"
            raise GmiError(f"{self._name}: world {number}, {method}: {words}") from error


def make_task(
    rest: str,
    *,
    num_env: int,
    device: str,
    seed: int,
    threads: int,
    arguments: Mapping[str, Any] = NO_ARGUMENTS,
    settings: TaskSettings = USUAL_SETTINGS,
    films: bool = False,
) -> ParallelTask:
    """Make the task `pettingzoo:REST`.

    Args:
        rest: A module with `parallel_env`, such as `mpe2.simple_spread_v3`.
        num_env: Rows N; as many worlds are made as have at least so many agents.
        device: The device of the tensors.
        seed: Of the first reset.
        threads: Has no effect.
        arguments: Go to `parallel_env`.
        settings: The section `task`.
        films: Whether the worlds can be drawn.

    Raises:
        UsageError: There is no such module, it has no such worlds, or their agents differ.
        MachineError: PettingZoo, or a package that the worlds need, is not installed.
    """
    try:
        import pettingzoo  # noqa: F401
    except ImportError as error:
        raise not_importable("PettingZoo", "pettingzoo", error, INSTALL) from error
    name, more = f"pettingzoo:{rest}", {**arguments, **({"render_mode": "rgb_array"} if films else {})}
    try:
        module = import_module(rest)
    except Exception as error:  # a module may raise anything
        package = rest.partition(".")[0]
        remedy = f"install {package}, or write the module as in mpe2.simple_spread_v3"
        raise not_importable(f"{name}: the module {rest}", rest, error, remedy) from error
    worlds = [_make_world(name, module, more)]
    agents = max(1, len(worlds[0].possible_agents))
    worlds += [_make_world(name, module, more) for _ in range(-(-num_env // agents) - 1)]
    return ParallelTask(worlds, name, device=device, seed=seed, settings=settings)


def _make_world(name: str, module: Any, arguments: Mapping[str, Any]) -> Any:
    """A world; games in turns are converted where PettingZoo allows it."""
    from pettingzoo.utils.conversions import aec_to_parallel

    try:
        if hasattr(module, "parallel_env"):
            return module.parallel_env(**arguments)
        if hasattr(module, "env"):
            return aec_to_parallel(module.env(**arguments))
    except AssertionError as error:
        raise UsageError(f"{name}: its agents act in turns, and PettingZoo does not convert it: {error}") from error
    except Exception as error:  # a constructor may raise anything
        raise UsageError(f"{name} cannot be made: {type(error).__name__}: {error} ({place_of(error)})") from error
    raise UsageError(f"{name}: the module has neither parallel_env nor env: name one as mpe2.simple_spread_v3")


def _state_space(name: str, world: Any, settings: TaskSettings) -> ObservationSpace | None:
    """The space of a world's state, by what it tells: an image, or numbers; None without one, or by `task.state`.

    Raises:
        UsageError: `task.state` is true, and the world has none.
    """
    from gymnasium.spaces import Box

    if settings.state is False:
        return None
    try:
        state = np.asarray(world.state())
    except Exception as error:  # any: then there is none; PettingZoo's own `state` raises NotImplementedError
        if settings.state:
            raise UsageError(f"{name} has no state ({type(error).__name__}: {error}): leave task.state out") from error
        return None
    low, high = (0, 255) if state.dtype == np.uint8 else (-np.inf, np.inf)
    dtype: Any = np.uint8 if state.dtype == np.uint8 else np.float32
    return ObservationSpace(name, Box(low, high, state.shape, dtype), settings.channels)


def _at(nested: Any, number: int) -> Any:
    """An entry of each leaf of nested arrays `[E, ...]`."""
    if isinstance(nested, dict):
        return {key: _at(one, number) for key, one in nested.items()}
    return tuple(_at(one, number) for one in nested) if isinstance(nested, tuple) else nested[number]
