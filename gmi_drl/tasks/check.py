"""A test of a task against the protocol `Task`: all that learners rely on."""

from collections.abc import Callable
from contextlib import closing
from typing import Any, cast

import torch
from torch import Tensor

from gmi_drl.errors import UsageError
from gmi_drl.tasks.task import Task, own_outcome
from gmi_drl.workload.observations import dtype_of

MakeTask = Callable[[int], Task]
Outcome = tuple[Tensor, Tensor, Tensor, Tensor, dict[str, Tensor]]

RESETS = 8
"""Resets from which the range of first observations is found."""

UNTOUCHED_STEPS = 10
"""Steps before lengths of episodes are set near their limit."""


def check_task(
    task: MakeTask | Task, *, steps: int = 200, nan_ends_world: bool = True, clamps_actions: bool = True
) -> None:
    """Check that a task does all that `Task` promises. Call it in a test of the task.

    Args:
        task: Makes the task from a seed, always with the same number of environments (a few are enough). Or a task
            itself: then seeds and clamping, which need two tasks, are not checked, and it stays open.
        steps: Steps of random actions within which some episode must end, because ends are checked, too. If the task
            `counts_by_itself`, they must suffice for a whole episode; else lengths are set near their limit.
        nan_ends_world: Whether a NaN action must end its environment as bad, and no other. False for simulators of
            other libraries that do not check actions.
        clamps_actions: Whether actions beyond [-1, 1] are clamped. False for simulators of other libraries without
            bounds.

    Raises:
        UsageError: with all mistakes that were found.
    """
    make: MakeTask = task if callable(task) else lambda seed: cast(Task, _LeftOpen(task))
    checks = [_check_reset, _check_action_shape, _check_state]
    if callable(task):
        checks += [_check_seed, *([_check_clamping] if clamps_actions else [])]
    mistakes = [mistake for check in checks for mistake in _run(check, make)]
    mistakes += _run(lambda make, mistakes: _check_steps(make, mistakes, steps), make)
    mistakes += _run(_check_nan, make) if nan_ends_world else []
    if mistakes:
        count = "1 mistake" if len(mistakes) == 1 else f"{len(mistakes)} mistakes"
        lines = "\n".join(f"  {line}" for line in mistakes)
        raise UsageError(f"the task does not keep the contract of gmi_drl.tasks.Task: {count}\n{lines}")


class _LeftOpen:
    """A task that `close` leaves open: it is the caller's."""

    def __init__(self, task: Task) -> None:
        self._task = task

    def __getattr__(self, name: str) -> Any:
        return getattr(self._task, name)

    def close(self) -> None:
        """Leave the task open."""


class _Mistakes(list[str]):
    """The mistakes that were found, each once."""

    def unless(self, holds: bool, mistake: str) -> None:
        if not holds and mistake not in self:
            self.append(mistake)


Check = Callable[[MakeTask, _Mistakes], None]


def _run(check: Check, make: MakeTask) -> list[str]:
    mistakes = _Mistakes()
    try:
        check(make, mistakes)
    except Exception as error:  # a task may raise anything; the other checks still run
        mistakes.append(f"{type(error).__name__}: {error}")
    return mistakes


def _check_reset(make: MakeTask, mistakes: _Mistakes) -> None:
    with closing(make(0)) as task:
        shape, dtype = (task.num_env, *task.spec.observation.shape), dtype_of(task.spec.observation)
        _check_tensor(mistakes, task, "obs, when made,", task.obs, shape, dtype)
        _check_tensor(mistakes, task, "episode_length", task.episode_length, shape[:1], torch.int64)
        task.step(_actions(task, 1)[0])
        obs = task.reset()
        _check_tensor(mistakes, task, "what reset returns", obs, shape, dtype)
        mistakes.unless(torch.equal(obs, task.obs), "obs is not what reset returned")
        mistakes.unless(not task.episode_length.any(), "after reset episode_length is not 0")
        task.close()  # and once more by `closing`


def _check_seed(make: MakeTask, mistakes: _Mistakes) -> None:
    with closing(make(3)) as one, closing(make(3)) as same, closing(make(4)) as other:
        alike = torch.equal(one.obs, same.obs)
        is_random = bool((one.obs != one.obs[0]).any())
        is_used = not is_random or not torch.equal(one.obs, other.obs)
        mistakes.unless(is_used, "seeds 3 and 4 have the same first observations: is the seed used?")
        for action in _actions(one, _comparable_steps(one)):
            alike = alike and _alike(one.step(action), same.step(action))
        mistakes.unless(alike, "two tasks of the same seed differ: something random does not come from the seed")


def _check_clamping(make: MakeTask, mistakes: _Mistakes) -> None:
    with closing(make(0)) as large, closing(make(0)) as clamped:
        action, numbers = _actions(large, 1)[0], large.spec.action.numbers
        action[:, :numbers] *= 5
        within = torch.cat((action[:, :numbers].clamp(-1, 1), action[:, numbers:]), 1)
        same = _alike(large.step(action), clamped.step(within))
        mistakes.unless(same, "actions beyond [-1, 1] are not clamped: their steps differ from those of -1 and 1")


def _check_action_shape(make: MakeTask, mistakes: _Mistakes) -> None:
    with closing(make(0)) as task:
        try:
            task.step(torch.zeros(task.num_env, task.spec.action.size + 1, device=task.device))
            raised = "no error"
        except UsageError:
            return
        except Exception as error:
            raised = type(error).__name__
        mistakes.append(f"an action of another shape raises {raised}, not UsageError")


def _check_state(make: MakeTask, mistakes: _Mistakes) -> None:
    with closing(make(0)) as task, closing(make(1)) as again:
        before, after = _actions(task, 20).chunk(2)
        for action in before:
            task.step(action)
        obs, state = task.obs.clone(), task.state_dict()
        kept = {name: tensor.clone() for name, tensor in state.items()}
        after = after[: _comparable_steps(task)]
        outcomes = [_copied(task.step(action)) for action in after]
        is_copy = all(torch.equal(state[name], kept[name]) for name in kept)
        again.load_state_dict(kept)
        if not state:
            return
        mistakes.unless(is_copy, "state_dict is not a copy: steps change it")
        on_cpu = all(tensor.device.type == "cpu" for tensor in state.values())
        mistakes.unless(on_cpu, "state_dict is not on the CPU")
        mistakes.unless(torch.equal(obs, again.obs), "load_state_dict does not restore obs")
        alike = all([_alike(outcome, again.step(action)) for outcome, action in zip(outcomes, after, strict=True)])
        mistakes.unless(alike, "a task that has loaded a state_dict goes on differently from the task that gave it")


def _check_steps(make: MakeTask, mistakes: _Mistakes, steps: int) -> None:
    """Step with random actions. After some steps, set lengths of episodes near their limit where that is allowed."""
    with closing(make(0)) as task:
        low, high = _range_of_first_observations(task)
        limit, has_ended = task.spec.episode_steps, False
        late = torch.zeros(2, dtype=torch.int64)  # ends at the time limit, and how many of them are truncated
        due = torch.zeros(task.num_env, dtype=torch.bool, device=task.device)  # these begin an episode in this step
        for index, action in enumerate(_actions(task, steps)):
            if index == UNTOUCHED_STEPS and not task.counts_by_itself:
                task.episode_length.copy_(limit - 2 - torch.arange(task.num_env, device=task.device) % min(limit, 8))
            before, length = task.obs.clone(), task.episode_length.clone()
            outcome = task.step(action)
            if not _has_form(mistakes, task, outcome):
                return
            _check_outcome(mistakes, task, outcome, before)
            obs, reward, terminated, truncated, info = outcome
            ended, valid = terminated | truncated, info["valid"]
            has_ended = has_ended or bool((ended & valid).any())
            _check_lengths(mistakes, task, ended)
            going_on = ~ended & valid & (index != UNTOUCHED_STEPS)
            counted = torch.equal(task.episode_length[going_on], length[going_on] + 1)
            mistakes.unless(counted, "episode_length does not count the steps of an episode")
            at_limit = ended & valid & (length + 1 >= limit)
            late += torch.stack((at_limit.sum(), (at_limit & truncated).sum())).cpu()
            # A simulator may use one step, which is no transition, to begin the next episode.
            # Where the simulator's own episode goes on, the next one begins with the last observation.
            own_end = own_outcome(reward, ended, info)[1]
            is_late = ((obs < low) | (obs > high)).flatten(1).any(1)  # else it may be a first one that is alike
            begins_later = own_end & valid & is_late & (obs == info["final_obs"]).flatten(1).all(1)
            mistakes.unless(
                not (due & valid).any(),
                "where an episode ended, obs is final_obs, not the first observation of the next one",
            )
            _check_beginnings(mistakes, obs[(own_end & ~begins_later) | due], low, high)
            due = begins_later
        remedy = f"no episode ended within {steps} steps, so ends were not checked: give check_task more `steps`"
        mistakes.unless(has_ended, remedy)
        mistakes.unless(
            not late[0] or bool(late[1]), "all episodes at the time limit are terminated, none is truncated"
        )


def _has_form(mistakes: _Mistakes, task: Task, outcome: Outcome) -> bool:
    """Whether all that `step` returns is there, with its shape and type, so that the values can be checked."""
    obs, reward, terminated, truncated, info = outcome
    world, shape = (task.num_env,), (task.num_env, *task.spec.observation.shape)
    missing = [name for name in ("final_obs", "bad", "valid") if name not in info]
    mistakes.unless(not missing, f"info lacks {', '.join(missing)}")
    observations = {"obs": obs, "final_obs": info.get("final_obs", obs)}
    flags = {"terminated": terminated, "truncated": truncated}
    flags |= {name: info[name] for name in ("bad", "valid") if name in info}
    forms = [
        *(
            _check_tensor(mistakes, task, name, value, shape, dtype_of(task.spec.observation))
            for name, value in observations.items()
        ),
        _check_tensor(mistakes, task, "reward", reward, world, torch.float32),
        *(_check_tensor(mistakes, task, name, value, world, torch.bool) for name, value in flags.items()),
    ]
    return not missing and all(forms)


def _check_outcome(mistakes: _Mistakes, task: Task, outcome: Outcome, before: Tensor) -> None:
    obs, reward, terminated, truncated, info = outcome
    bad, going_on = info["bad"], info["valid"] & ~(terminated | truncated)
    mistakes.unless(torch.equal(obs, task.obs), "obs is not what step returned")
    mistakes.unless(not (terminated & truncated).any(), "an environment is both terminated and truncated")
    mistakes.unless(bool(truncated[bad].all()), "a bad environment is not truncated")
    mistakes.unless(not reward[bad].any(), "a bad environment has a reward")
    mistakes.unless(not info["valid"][bad].any(), "a bad environment is a valid transition")
    is_before = torch.equal(info["final_obs"][bad], before[bad])
    mistakes.unless(is_before, "a bad environment's final_obs is not the observation before the step")
    same = (obs == info["final_obs"]).flatten(1).all(1)  # False where an environment has a new goal
    mistakes.unless(not going_on.any() or bool((same & going_on).any()), "where nothing ends, final_obs is not obs")


def _check_tensor(
    mistakes: _Mistakes, task: Task, name: str, value: Tensor, shape: tuple[int, ...], dtype: torch.dtype
) -> bool:
    """Check a tensor. Returns whether it has its shape and type."""
    has_shape, has_type = tuple(value.shape) == shape, value.dtype == dtype
    mistakes.unless(has_shape, f"{name} has shape {tuple(value.shape)}, expected {shape}")
    mistakes.unless(has_type, f"{name} is {value.dtype}, expected {dtype}")
    mistakes.unless(value.device == task.device, f"{name} is on {value.device}, the task on {task.device}")
    mistakes.unless(bool(value.isfinite().all()), f"{name} is not finite")
    return has_shape and has_type


def _check_lengths(mistakes: _Mistakes, task: Task, ended: Tensor) -> None:
    length, limit = task.episode_length, task.spec.episode_steps
    mistakes.unless(not length[ended].any(), "where an episode ended, episode_length is not 0")
    mistakes.unless(bool((length < limit).all()), f"an episode goes on after its {limit} steps")


def _check_beginnings(mistakes: _Mistakes, first: Tensor, low: Tensor, high: Tensor) -> None:
    """First observations after ended episodes must be near the range of those that `reset` returns: numbers only."""
    if not len(first) or not first.is_floating_point():
        return
    margin = (high - low) + 1e-4
    outside = ((first < low - margin) | (first > high + margin)).any(0).nonzero().flatten().tolist()
    mistakes.unless(not outside, f"where an episode ended, observations {outside} are far from those of a reset")


def _check_nan(make: MakeTask, mistakes: _Mistakes) -> None:
    with closing(make(0)) as task:
        action = torch.zeros(task.num_env, task.spec.action.size, device=task.device)
        action[-1, -1] = float("nan")
        broken = torch.zeros(task.num_env, dtype=torch.bool, device=task.device)
        broken[-1] = True
        before = task.obs.clone()
        outcome = task.step(action)
        if not _has_form(mistakes, task, outcome):
            return
        _check_outcome(mistakes, task, outcome, before)
        alone = torch.equal(outcome[4]["bad"], broken)
        mistakes.unless(alone, "a NaN action does not end its environment as bad, and no other")
        after = task.step(torch.zeros_like(action))
        mistakes.unless(not after[4]["bad"].any(), "an environment is still bad in the step after")


def _range_of_first_observations(task: Task) -> tuple[Tensor, Tensor]:
    """Least and greatest value of each observation `[O]` over some resets."""
    first = torch.cat([task.reset().clone() for _ in range(RESETS)])
    return first.amin(0), first.amax(0)


def _actions(task: Task, steps: int) -> Tensor:
    """Random actions `[steps, N, A]`, the same in every call; some numbers lie beyond [-1, 1]."""
    generator, each, action = torch.Generator().manual_seed(0), (steps, task.num_env), task.spec.action
    numbers = torch.randn(*each, action.numbers, generator=generator)
    choices = [torch.randint(size, (*each, 1), generator=generator).float() for size in action.categories]
    return torch.cat([numbers, *choices], -1).to(task.device)


def _comparable_steps(task: Task) -> int:
    """Steps that two equal tasks are compared for: a GPU sums in any order, and small differences grow soon."""
    return 20 if task.device.type == "cpu" else 1


def _copied(outcome: Outcome) -> Outcome:
    """A copy, since the next step may overwrite it."""
    obs, reward, terminated, truncated, info = outcome
    flags = {name: value.clone() for name, value in info.items()}
    return obs.clone(), reward.clone(), terminated.clone(), truncated.clone(), flags


def _alike(one: Outcome, other: Outcome) -> bool:
    tensors, others = ([*outcome[:4], outcome[4]["final_obs"]] for outcome in (one, other))
    pairs = zip(tensors, others, strict=True)
    if one[0].device.type == "cpu":
        return all(torch.equal(left, right) for left, right in pairs)
    return all(torch.allclose(left.float(), right.float(), rtol=1e-3, atol=1e-3) for left, right in pairs)
