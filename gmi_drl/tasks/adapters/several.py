"""Several tasks as one: `several:ant+mujoco:Hopper-v5`. Environment i has the task number i modulo K.

One policy learns all of them. Each task has numbers of its own in the observations, which end with a one for the task;
actions are filled up with zeros to the largest (`workload/several.py`). Arguments: `units`, a return of each task that
counts as 1; `only`, the name of the task that all environments have, to see what the policy does there.
"""

import math
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import Any

import torch
from torch import Tensor

from gmi_drl.errors import UsageError
from gmi_drl.tasks.adapters.gymnasium import NO_ARGUMENTS
from gmi_drl.tasks.task import Task, checked_action, knows_final_obs, own_outcome
from gmi_drl.workload import TaskSpec
from gmi_drl.workload.several import padded_obs
from gmi_drl.workload.spaces import continuous, vector

BETWEEN = "+"


class SeveralTasks:
    """A `Task` of the environments of K tasks, in turn.

    Args:
        name: The task's name.
        tasks: By number, those that have environments here.
        rows: Which, by number.
        specs: Of all K.
        units: Of all, a return that counts as 1.
    """

    counts_by_itself = True

    def __init__(
        self,
        name: str,
        tasks: Mapping[int, Task],
        rows: Mapping[int, slice],
        specs: Sequence[TaskSpec],
        units: Sequence[float],
    ) -> None:
        self._tasks, self._rows, self._units = tasks, rows, units
        self.num_env = sum(task.num_env for task in tasks.values())
        self.device = next(iter(tasks.values())).device
        self._sizes = [spec.observation.size for spec in specs]
        self.spec = _spec(name, specs)
        self.knows_final_obs = all(map(knows_final_obs, tasks.values()))
        self._take_over()

    @torch.no_grad()
    def reset(self) -> Tensor:
        """See `Task.reset`."""
        for task in self._tasks.values():
            task.reset()
        return self._take_over()

    @torch.no_grad()
    def step(self, action: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor, dict[str, Tensor]]:
        """See `Task.step`."""
        action = checked_action(action, self)
        steps = {
            number: task.step(action[self._rows[number], : task.spec.action.size])
            for number, task in self._tasks.items()
        }
        last = {number: padded_obs(step[4]["final_obs"], number, self._sizes) for number, step in steps.items()}
        info = {"final_obs": self._together(last)}
        for name in ("bad", "valid"):
            info[name] = self._together({number: step[4][name] for number, step in steps.items()})
        if any("own_reward" in step[4] for step in steps.values()):
            own = {number: own_outcome(step[1], step[2] | step[3], step[4]) for number, step in steps.items()}
            info["own_reward"] = self._together(
                {number: reward / self._units[number] for number, (reward, _) in own.items()}
            )
            info["own_end"] = self._together({number: end for number, (_, end) in own.items()})
        reward = self._together({number: step[1] / self._units[number] for number, step in steps.items()})
        terminated = self._together({number: step[2] for number, step in steps.items()})
        truncated = self._together({number: step[3] for number, step in steps.items()})
        return self._take_over(), reward, terminated, truncated, info

    def state_dict(self) -> dict[str, Tensor]:
        """See `Task.state_dict`; empty if one of the tasks has none."""
        states = {number: task.state_dict() for number, task in self._tasks.items()}
        if not all(states.values()):
            return {}
        return {f"{number}.{name}": value for number, state in states.items() for name, value in state.items()}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """See `Task.load_state_dict`."""
        for number, task in self._tasks.items():
            start = f"{number}."
            task.load_state_dict(
                {name.removeprefix(start): value for name, value in state.items() if name.startswith(start)}
            )
        self._take_over()

    def close(self) -> None:
        """See `Task.close`."""
        for task in self._tasks.values():
            task.close()

    def _take_over(self) -> Tensor:
        """Show what the tasks show now. Returns the observations."""
        self.obs = self._together(
            {number: padded_obs(task.obs, number, self._sizes) for number, task in self._tasks.items()}
        )
        self.episode_length = self._together({number: task.episode_length for number, task in self._tasks.items()})
        return self.obs

    def _together(self, parts: Mapping[int, Tensor]) -> Tensor:
        """What the tasks have, in the order of the environments."""
        first = next(iter(parts.values()))
        whole = first.new_empty(self.num_env, *first.shape[1:])
        for number, part in parts.items():
            whole[self._rows[number]] = part
        return whole


def make_task(
    rest: str,
    *,
    num_env: int,
    device: str,
    seed: int,
    threads: int,
    arguments: Mapping[str, Any] = NO_ARGUMENTS,
    cuda_graphs: bool = True,
) -> SeveralTasks:
    """Make the task `several:REST`.

    Args:
        rest: Names of tasks, joined by `+`.
        num_env: N, the environments of all together.
        device: The device of the tensors.
        seed: Of the first task; each has the next one.
        threads: Of native physics.
        arguments: `units`, without which all are 1, and `only`.
        cuda_graphs: As of `make`, for each task.

    Raises:
        UsageError: if there is one task alone, one has other spaces than vectors and numbers, or the units are wrong.
    """
    from gmi_drl.tasks import make

    names = rest.split(BETWEEN)
    if len(names) < 2 or not all(names):
        raise UsageError(f"several:{rest} names no two tasks: say which, as in several:ant+humanoid")
    units = _checked_units(names, arguments.get("units", [1.0] * len(names)))
    only = arguments.get("only")
    if unknown := sorted(set(arguments) - {"units", "only"}):
        raise UsageError(f"several takes units and only, not {', '.join(unknown)}")
    if only is not None and only not in names:
        raise UsageError(f"only is one of {', '.join(names)}, not {only}")
    tasks, specs, rows = dict[int, Task](), list[TaskSpec](), dict[int, slice]()
    with ExitStack() as opened:  # closed where a later one cannot be made
        for number, name in enumerate(names):
            has_all = only is not None and number == names.index(only)
            own = slice(number, num_env, len(names)) if only is None else slice(num_env if has_all else 0)
            count = len(range(num_env)[own])
            task = make(name, max(1, count), device, seed + number, threads, cuda_graphs=cuda_graphs)
            opened.callback(task.close)
            specs.append(_checked(task.spec))
            if count:
                tasks[number], rows[number] = task, own
            else:
                task.close()
        opened.pop_all()
    return SeveralTasks(f"several:{rest}", tasks, rows, specs, units)


def _checked_units(names: Sequence[str], units: object) -> list[float]:
    if not (
        isinstance(units, list)
        and len(units) == len(names)
        and all(isinstance(one, int | float) and 0 < one < math.inf for one in units)
    ):
        raise UsageError(f"units are {len(names)} numbers above 0, a return of each task that counts as 1: not {units}")
    return [float(one) for one in units]


def _checked(spec: TaskSpec) -> TaskSpec:
    if not spec.observation.is_vector or any(part.critic_alone for part in spec.observation.parts):
        raise UsageError(f"several takes tasks that show one vector, {spec.name} has {spec.observation}")
    if spec.action.categories:
        raise UsageError(f"several takes tasks whose actions are numbers, {spec.name} has {spec.action}")
    return spec


def _spec(name: str, specs: Sequence[TaskSpec]) -> TaskSpec:
    """The sizes of all together; the largest network, and no seconds of a step if they differ."""
    step_s = {spec.step_s for spec in specs}
    return TaskSpec(
        name,
        name,
        vector(sum(spec.observation.size for spec in specs) + len(specs)),
        continuous(max(spec.action.size for spec in specs)),
        max((spec.hidden for spec in specs), key=sum),
        max(spec.episode_steps for spec in specs),
        step_s.pop() if len(step_s) == 1 else 0.0,
    )
