"""A contract test for tasks: everything that `Task` promises and a learner relies on."""

from collections.abc import Callable
from contextlib import closing

import torch
from torch import Tensor

from gmi_drl.errors import UsageError
from gmi_drl.tasks.task import Task

MakeTask = Callable[[int], Task]
Outcome = tuple[Tensor, Tensor, Tensor, Tensor, dict[str, Tensor]]

RESETS = 8
"""From which the range of first observations is learnt."""

FOLLOWED = 10
"""Steps in which lengths of episodes are left alone."""


def check_task(make: MakeTask, *, steps: int = 200, nan_ends_world: bool = True, clamps_actions: bool = True) -> None:
    """Try whether a task keeps the contract of `Task`; call it in a test.

    Args:
        make: Makes the task from a seed, always with the same number of worlds (a few are enough).
        steps: Control steps of random actions in which some episode must end, or its end could not be looked at. Where
            the task says `counts_by_itself`, they must be enough for a whole episode; else lengths are set near their
            limit.
        nan_ends_world: Whether a NaN action must end its world as bad, and that one alone; False for simulators of
            others that do not look.
        clamps_actions: Whether actions beyond [-1, 1] are clamped; False for simulators of others without bounds.

    Raises:
        UsageError: listing all mistakes at once.
    """
    checks = [_check_reset, _check_seed, _check_action_shape, _check_state]
    checks += [_check_clamping] if clamps_actions else []
    mistakes = [mistake for check in checks for mistake in _run(check, make)]
    mistakes += _run(lambda make, mistakes: _check_steps(make, mistakes, steps), make)
    mistakes += _run(_check_nan, make) if nan_ends_world else []
    if mistakes:
        count = "1 mistake" if len(mistakes) == 1 else f"{len(mistakes)} mistakes"
        raise UsageError(f"the task breaks its contract: {count}\n" + "\n".join(f"  {line}" for line in mistakes))


class _Mistakes(list[str]):
    """What was found, each thing once."""

    def unless(self, holds: bool, mistake: str) -> None:
        if not holds and mistake not in self:
            self.append(mistake)


Check = Callable[[MakeTask, _Mistakes], None]


def _run(check: Check, make: MakeTask) -> list[str]:
    mistakes = _Mistakes()
    try:
        check(make, mistakes)
    except Exception as error:  # a task may raise anything; the other checks go on
        mistakes.append(f"{type(error).__name__}: {error}")
    return mistakes


def _check_reset(make: MakeTask, mistakes: _Mistakes) -> None:
    with closing(make(0)) as task:
        shape = (task.num_env, task.spec.num_obs)
        _check_tensor(mistakes, task, "obs, when made,", task.obs, shape, torch.float32)
        _check_tensor(mistakes, task, "episode_length", task.episode_length, shape[:1], torch.int64)
        task.step(_actions(task, 1)[0])
        obs = task.reset()
        _check_tensor(mistakes, task, "what reset returns", obs, shape, torch.float32)
        mistakes.unless(torch.equal(obs, task.obs), "obs is not what reset returned")
        mistakes.unless(not task.episode_length.any(), "after reset episode_length is not 0")
        task.close()  # twice is fine


def _check_seed(make: MakeTask, mistakes: _Mistakes) -> None:
    with closing(make(3)) as one, closing(make(3)) as same, closing(make(4)) as other:
        alike = torch.equal(one.obs, same.obs)
        is_random = bool((one.obs != one.obs[0]).any())
        mistakes.unless(not is_random or not torch.equal(one.obs, other.obs), "seeds 3 and 4 begin alike: is it used?")
        for action in _actions(one, _comparable_steps(one)):
            alike = alike and _alike(one.step(action), same.step(action))
        mistakes.unless(alike, "two tasks of the same seed part: something random does not come from the seed")


def _check_clamping(make: MakeTask, mistakes: _Mistakes) -> None:
    with closing(make(0)) as large, closing(make(0)) as clamped:
        action = 5 * _actions(large, 1)[0]
        same = _alike(large.step(action), clamped.step(action.clamp(-1, 1)))
        mistakes.unless(same, "actions beyond [-1, 1] are not clamped: they step otherwise than -1 and 1")


def _check_action_shape(make: MakeTask, mistakes: _Mistakes) -> None:
    with closing(make(0)) as task:
        try:
            task.step(torch.zeros(task.num_env, task.spec.num_actions + 1, device=task.device))
            met = "no error"
        except UsageError:
            return
        except Exception as error:
            met = type(error).__name__
        mistakes.append(f"an action of another shape raises {met}, not UsageError")


def _check_state(make: MakeTask, mistakes: _Mistakes) -> None:
    with closing(make(0)) as task, closing(make(1)) as again:
        before, after = _actions(task, 20).chunk(2)
        for action in before:
            task.step(action)
        state = task.state_dict()
        kept = {name: tensor.clone() for name, tensor in state.items()}
        again.load_state_dict(state)
        if not state:
            return
        on_cpu = all(tensor.device.type == "cpu" for tensor in state.values())
        mistakes.unless(on_cpu, "state_dict is not on the CPU")
        mistakes.unless(torch.equal(task.obs, again.obs), "load_state_dict does not bring back obs")
        after = after[: _comparable_steps(task)]
        alike = all([_alike(task.step(action), again.step(action)) for action in after])
        mistakes.unless(alike, "a task that loads state_dict does not go on alike")
        is_copy = all(torch.equal(state[name], kept[name]) for name in kept)
        mistakes.unless(is_copy, "state_dict is no copy: steps change it")


def _check_steps(make: MakeTask, mistakes: _Mistakes, steps: int) -> None:
    """Random actions; lengths of episodes are followed for some steps, then set near their limit if that does it."""
    with closing(make(0)) as task:
        low, high = _range_of_first_observations(task)
        limit, has_ended = task.spec.episode_steps, False
        late = torch.zeros(2, dtype=torch.int64)  # ends at the limit, and those of them that are time-outs
        due = torch.zeros(task.num_env, dtype=torch.bool, device=task.device)  # to begin an episode in this step
        for index, action in enumerate(_actions(task, steps)):
            if index == FOLLOWED and not task.counts_by_itself:
                task.episode_length.copy_(limit - 2 - torch.arange(task.num_env, device=task.device) % min(limit, 8))
            before, length = task.obs.clone(), task.episode_length.clone()
            outcome = task.step(action)
            if not _has_form(mistakes, task, outcome):
                return
            _check_outcome(mistakes, task, outcome, before)
            obs, _, terminated, truncated, info = outcome
            ended, valid = terminated | truncated, info["valid"]
            has_ended = has_ended or bool((ended & valid).any())
            _check_lengths(mistakes, task, ended)
            going_on = ~ended & valid & (index != FOLLOWED)
            counted = torch.equal(task.episode_length[going_on], length[going_on] + 1)
            mistakes.unless(counted, "episode_length does not count the steps of an episode")
            at_limit = ended & valid & (length + 1 >= limit)
            late += torch.stack((at_limit.sum(), (at_limit & truncated).sum())).cpu()
            # A world may spend one step, which is no transition, on the beginning of its next episode.
            begins_later = ended & valid & (obs == info["final_obs"]).all(1)
            mistakes.unless(
                not (due & valid).any(),
                "where an episode ended, obs is final_obs, not the first observation of the next one",
            )
            _check_beginnings(mistakes, obs[(ended & ~begins_later) | due], low, high)
            due = begins_later
        remedy = f"no episode ended within {steps} steps, so ends are not checked: give check_task more `steps`"
        mistakes.unless(has_ended, remedy)
        mistakes.unless(not late[0] or bool(late[1]), "worlds at the time limit are terminated, none is truncated")


def _has_form(mistakes: _Mistakes, task: Task, outcome: Outcome) -> bool:
    """Whether all is there, with its shape and type, so that values can be looked at."""
    obs, reward, terminated, truncated, info = outcome
    world, shape = (task.num_env,), (task.num_env, task.spec.num_obs)
    missing = [name for name in ("final_obs", "bad", "valid") if name not in info]
    mistakes.unless(not missing, f"info lacks {', '.join(missing)}")
    observations = {"obs": obs, "final_obs": info.get("final_obs", obs)}
    flags = {"terminated": terminated, "truncated": truncated}
    flags |= {name: info[name] for name in ("bad", "valid") if name in info}
    forms = [
        *(_check_tensor(mistakes, task, name, value, shape, torch.float32) for name, value in observations.items()),
        _check_tensor(mistakes, task, "reward", reward, world, torch.float32),
        *(_check_tensor(mistakes, task, name, value, world, torch.bool) for name, value in flags.items()),
    ]
    return not missing and all(forms)


def _check_outcome(mistakes: _Mistakes, task: Task, outcome: Outcome, before: Tensor) -> None:
    obs, reward, terminated, truncated, info = outcome
    bad, going_on = info["bad"], info["valid"] & ~(terminated | truncated)
    mistakes.unless(torch.equal(obs, task.obs), "obs is not what step returned")
    mistakes.unless(not (terminated & truncated).any(), "a world is both terminated and truncated")
    mistakes.unless(bool(truncated[bad].all()), "a bad world is not truncated")
    mistakes.unless(not reward[bad].any(), "a bad world has a reward")
    mistakes.unless(not info["valid"][bad].any(), "a bad world is a valid transition")
    mistakes.unless(torch.equal(info["final_obs"][bad], before[bad]), "a bad world's final_obs is not obs before it")
    same = (obs == info["final_obs"]).all(1)  # not where a world has got a new goal
    mistakes.unless(not going_on.any() or bool((same & going_on).any()), "where nothing ends, final_obs is not obs")


def _check_tensor(
    mistakes: _Mistakes, task: Task, name: str, value: Tensor, shape: tuple[int, ...], dtype: torch.dtype
) -> bool:
    """Whether a tensor has its shape and type."""
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
    """What an ended episode is followed by `[n, O]` must look like what reset gives."""
    if not len(first):
        return
    margin = (high - low) + 1e-4
    outside = ((first < low - margin) | (first > high + margin)).any(0).nonzero().flatten().tolist()
    mistakes.unless(not outside, f"where an episode ended, observations {outside} are far from any that reset gives")


def _check_nan(make: MakeTask, mistakes: _Mistakes) -> None:
    with closing(make(0)) as task:
        action = torch.zeros(task.num_env, task.spec.num_actions, device=task.device)
        action[-1, -1] = float("nan")
        broken = torch.zeros(task.num_env, dtype=torch.bool, device=task.device)
        broken[-1] = True
        before = task.obs.clone()
        outcome = task.step(action)
        if not _has_form(mistakes, task, outcome):
            return
        _check_outcome(mistakes, task, outcome, before)
        alone = torch.equal(outcome[4]["bad"], broken)
        mistakes.unless(alone, "a NaN action does not end its world, and that one alone, as bad")
        after = task.step(torch.zeros_like(action))
        mistakes.unless(not after[4]["bad"].any(), "a world is still bad after the step that ended it")


def _range_of_first_observations(task: Task) -> tuple[Tensor, Tensor]:
    """Least and greatest of each observation `[O]` over some resets."""
    first = torch.cat([task.reset().clone() for _ in range(RESETS)])
    return first.amin(0), first.amax(0)


def _actions(task: Task, steps: int) -> Tensor:
    """Random actions `[steps, N, A]`, some of them beyond [-1, 1], always the same."""
    shape = (steps, task.num_env, task.spec.num_actions)
    return torch.randn(shape, generator=torch.Generator().manual_seed(0)).to(task.device)


def _comparable_steps(task: Task) -> int:
    """A GPU adds up in any order, and what parts a little soon parts far."""
    return 20 if task.device.type == "cpu" else 1


def _alike(one: Outcome, other: Outcome) -> bool:
    tensors, others = ([*outcome[:4], outcome[4]["final_obs"]] for outcome in (one, other))
    pairs = zip(tensors, others, strict=True)
    if one[0].device.type == "cpu":
        return all(torch.equal(left, right) for left, right in pairs)
    return all(torch.allclose(left.float(), right.float(), rtol=1e-3, atol=1e-3) for left, right in pairs)
