"""Evaluations of a policy during a training: whole episodes without noise, in environments of their own."""

import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
import torch
from torch import Tensor

from gmi_drl.algo.policy import ActingAgent
from gmi_drl.comm.group import Group
from gmi_drl.tasks import Task
from gmi_drl.tasks.task import own_outcome

LOOK_EVERY = 64
"""Steps between two looks at whether all episodes have ended, each of which waits for the device."""

Act = Callable[[Task, Tensor, Tensor, Tensor], Tensor]
"""Returns the actions `[N, A]` for a task's current observations, without noise. The second argument, bool `[N]`, says
where an episode, or what training takes for one, has begun: memories are empty there. The third has the rewards of the
step before, `[N]`, and the fourth whether it was a transition, bool `[N]`."""


def act_of(agent: ActingAgent) -> Act:
    """An agent's actions without noise, from empty memories on."""
    state: Tensor | None = None

    def act(task: Task, begins: Tensor, reward: Tensor, valid: Tensor) -> Tensor:
        nonlocal state
        state = agent.empty_state(task.num_env) if state is None else state
        agent.receive(reward, valid, state)
        if state is not None:
            state.masked_fill_(begins[:, None], 0)
        return agent.act(task.obs, state=state)

    return act


def share_of(total: int, rank: int, size: int) -> int:
    """The environments of a rank if `total` are divided among `size` ranks as evenly as they go; at least one."""
    return max(1, total // size + (rank < total % size))


@contextmanager
def unchanged_generators(device: torch.device) -> Iterator[None]:
    """Give Python's, numpy's and torch's own generators back as they were: some simulators of trainings draw from them.

    Args:
        device: Whose generator of torch is meant, beside that of CPUs.
    """
    pythons, numpys = random.getstate(), np.random.get_state()
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        try:
            yield
        finally:
            random.setstate(pythons)
            np.random.set_state(numpys)


@torch.no_grad()
def play_episodes(task: Task, act: Act) -> Tensor:
    """Play one episode in each environment, with the simulator's own rewards and ends.

    Returns:
        Number of episodes, sum of their returns, sum of their lengths, float64 `[3]` on the task's device. Steps that
        are no transitions (`valid`) count neither for returns nor for lengths.
    """
    task.reset()
    goes_on = begins = valid = torch.ones(task.num_env, dtype=torch.bool, device=task.device)
    total = torch.zeros(2, task.num_env, dtype=torch.float64, device=task.device)
    reward = torch.zeros(task.num_env, device=task.device)
    for step in range(1, task.spec.episode_steps + 1):
        _, reward, terminated, truncated, info = task.step(act(task, begins, reward, valid))
        valid = info["valid"]
        counts, begins = goes_on & valid, terminated | truncated
        own, ended = own_outcome(reward, begins, info)
        total[0] += torch.where(counts, own, 0.0)
        total[1] += counts
        goes_on = goes_on & ~ended
        if step % LOOK_EVERY == 0 and not goes_on.any():
            break
    return torch.cat((total.new_tensor([float(task.num_env)]), total.sum(1)))


class Evaluation:
    """Plays episodes now and then, divided among the GMIs of a group. All must call it, after the same iterations.

    Args:
        group: The GMIs that train together.
        task: Of this GMI, for evaluations alone.
        best: The best mean return so far, of a run that goes on; None for a new one.
    """

    def __init__(self, group: Group, task: Task, best: float | None) -> None:
        self.group, self.task, self.best = group, task, best

    def play(self, act: Act) -> dict[str, float]:
        """Play by a policy, and return what rows have of it: means over all episodes, the same on all GMIs; seconds."""
        began_s = time.monotonic()
        with unchanged_generators(self.task.device):
            sums = play_episodes(self.task, act)
        count, returns, lengths = self.group.gather(sums.cpu()).sum(0).tolist()
        means = {"eval_return_mean": returns / count, "eval_length_mean": lengths / count}
        return means | {"eval_s": time.monotonic() - began_s}

    def is_best(self, mean: float) -> bool:
        """Whether a mean return is better than all before. If so, it is the best one from now on."""
        if self.best is not None and mean <= self.best:
            return False
        self.best = mean
        return True
