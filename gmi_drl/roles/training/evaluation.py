"""Evaluations of a policy during a training: whole episodes without noise, in environments of their own."""

from collections.abc import Callable

import torch
from torch import Tensor

from gmi_drl.algo.agent import Agent
from gmi_drl.comm.group import Group
from gmi_drl.tasks import Task

LOOK_EVERY = 64
"""Steps between two looks at whether all episodes have ended, each of which waits for the device."""

Act = Callable[[Task], Tensor]
"""Returns the actions `[N, A]` for a task's current observations, without noise."""


def act_of(agent: Agent) -> Act:
    """An agent's actions without noise, from empty memories on."""
    state: Tensor | None = None

    def act(task: Task) -> Tensor:
        nonlocal state
        state = agent.empty_state(task.num_env) if state is None else state
        return agent.act(task.obs, state=state)

    return act


def share_of(total: int, rank: int, size: int) -> int:
    """The environments of a rank if `total` are divided among `size` ranks as evenly as they go; at least one."""
    return max(1, total // size + (rank < total % size))


@torch.no_grad()
def play_episodes(task: Task, act: Act) -> Tensor:
    """Play one episode in each environment.

    Returns:
        Number of episodes, sum of their returns, sum of their lengths, float64 `[3]` on the task's device. Steps that
        are no transitions (`valid`) count neither for returns nor for lengths.
    """
    task.reset()
    goes_on = torch.ones(task.num_env, dtype=torch.bool, device=task.device)
    total = torch.zeros(2, task.num_env, dtype=torch.float64, device=task.device)
    for step in range(1, task.spec.episode_steps + 1):
        _, reward, terminated, truncated, info = task.step(act(task))
        counts = goes_on & info["valid"]
        total[0] += torch.where(counts, reward, 0.0)
        total[1] += counts
        goes_on &= ~(terminated | truncated)
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
        """Play by a policy, and return what rows have of it, the same on all GMIs: means over all episodes."""
        with torch.random.fork_rng(devices=[]):  # some simulators draw from torch's own generator, as trainings do
            sums = play_episodes(self.task, act)
        count, returns, lengths = self.group.gather(sums.cpu()).sum(0).tolist()
        return {"eval_return_mean": returns / count, "eval_length_mean": lengths / count}

    def is_best(self, mean: float) -> bool:
        """Whether a mean return is better than all before. If so, it is the best one from now on."""
        if self.best is not None and mean <= self.best:
            return False
        self.best = mean
        return True
