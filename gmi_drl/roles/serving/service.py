"""Serving on one GMI: simulator and agent take turns and nobody learns (TCG, paper section 5.1)."""

import torch
from torch import Tensor

from gmi_drl.algo.agent import Agent
from gmi_drl.cuda_graph import WARM_UP_CALLS
from gmi_drl.roles.serving.recorder import Recorder
from gmi_drl.roles.training.clock import PhaseClock
from gmi_drl.roles.training.policy_step import PolicyStep
from gmi_drl.tasks import Task


class Service:
    """An agent in worlds, a block of steps after the other; within a block nothing waits for the device.

    Args:
        task: The worlds, already on their first observation.
        agent: Who acts, on the task's device.
        noise: Generator of the noise, on the device; None to act by the mean.
        cuda_graphs: Replay what the agent does as a CUDA graph, on a GPU.
        recorder: Writes every step down; it must have room for the steps of a block, and whoever plays flushes it.

    Attributes:
        sums: Over the episodes that have ended, float64 `[4]`: how many, their returns and their lengths, and how many
            more went wrong.
    """

    def __init__(
        self,
        task: Task,
        agent: Agent,
        noise: torch.Generator | None = None,
        *,
        cuda_graphs: bool = True,
        recorder: Recorder | None = None,
    ) -> None:
        self.task, self.clock, self._recorder = task, PhaseClock(task.device), recorder
        self._act, self._noise = PolicyStep(task, agent, cuda_graphs=cuda_graphs), noise
        self._still = torch.zeros(task.num_env, task.spec.num_actions, device=task.device)
        self._total, self._length = torch.zeros(2, task.num_env, dtype=torch.float64, device=task.device)
        self.sums = torch.zeros(4, dtype=torch.float64, device=task.device)
        for _ in range(WARM_UP_CALLS + 1 if cuda_graphs and task.device.type == "cuda" else 1):
            self._act(self._still)  # choose kernels and make the graph before anybody looks at the clock

    @torch.no_grad()
    def play(self, steps: int) -> None:
        """A block of control steps of all worlds."""
        self.clock.start()
        for _ in range(steps):
            self._act(self._draw())
            self.clock.mark("act_s")
            _, reward, terminated, truncated, info = self.task.step(self._act.action)
            self.clock.mark("sim_s")
            self._count(reward, terminated | truncated, info["valid"], info["bad"])
            if self._recorder is not None:
                self._recorder.add(self._act.obs, self._act.action, reward, terminated, truncated, info)
        self.clock.mark("act_s")

    def phases(self) -> dict[str, float]:
        """Seconds of the last block: the paper's T_s and T_a. Waits for the device, once."""
        return self.clock.read()

    def latencies(self) -> list[float]:
        """Seconds of each step of the last block, all worlds: from one observation to the next. After `phases`."""
        return self.clock.laps("sim_s")

    def _draw(self) -> Tensor:
        if self._noise is None:
            return self._still
        return torch.randn(self._still.shape, generator=self._noise, device=self.task.device)

    def _count(self, reward: Tensor, done: Tensor, valid: Tensor, bad: Tensor) -> None:
        """As `Player` counts: a step that began an episode is none of it, one that went wrong tells nothing."""
        self._total += reward * valid
        self._length += valid
        ended = done & (valid | bad)
        whole = ended & ~bad
        so_far = torch.stack((torch.ones_like(self._total), self._total, self._length))
        self.sums[:3] += (so_far * whole).sum(1)
        self.sums[3] += (ended & bad).sum()
        self._total *= ~ended
        self._length *= ~ended
