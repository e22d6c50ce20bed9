"""Serving on one GMI: simulator and agent in turn, without a learner (TCG, paper section 5.1)."""

import torch
from torch import Tensor

from gmi_drl.algo.policy import ActingAgent
from gmi_drl.cuda_graph import WARM_UP_CALLS
from gmi_drl.roles.serving.episode_sums import EpisodeSums
from gmi_drl.roles.serving.recorder import Recorder
from gmi_drl.roles.training.clock import PhaseClock
from gmi_drl.roles.training.policy_step import PolicyStep
from gmi_drl.tasks import Task
from gmi_drl.tasks.task import own_outcome


class Service:
    """Steps a task with an agent, in blocks within which nothing waits for the device.

    Args:
        task: The environments, already on their first observation.
        agent: Acts, on the task's device.
        noise: Generator of the noise, on the device; None to act by the mode.
        cuda_graphs: Whether the agent acts by a CUDA graph, on a GPU.
        recorder: Records every step. It must have room for a block; the caller flushes it.

    Attributes:
        num_env: Of the task.
    """

    def __init__(
        self,
        task: Task,
        agent: ActingAgent,
        noise: torch.Generator | None = None,
        *,
        cuda_graphs: bool = True,
        recorder: Recorder | None = None,
    ) -> None:
        self.task, self.clock, self._recorder = task, PhaseClock(task.device), recorder
        self._act, self._noise = PolicyStep(task, agent, cuda_graphs=cuda_graphs), noise
        self._distribution = agent.policy.distribution
        self._zero_action = torch.zeros(task.num_env, task.spec.action.params, device=task.device)
        self.num_env, self._episodes = task.num_env, EpisodeSums(task.num_env, task.device)
        for _ in range(WARM_UP_CALLS + 1 if cuda_graphs and task.device.type == "cuda" else 1):
            self._act(self._zero_action)  # choose kernels and capture the graph before times are measured
        self._act.forget(torch.ones(task.num_env, dtype=torch.bool, device=task.device))

    @property
    def sums(self) -> Tensor:
        """See `EpisodeSums`."""
        return self._episodes.sums

    @torch.no_grad()
    def play(self, steps: int) -> None:
        """Play a block of control steps."""
        self.clock.start()
        for _ in range(steps):
            self._act(self._draw())
            self.clock.mark("act_s")
            _, reward, terminated, truncated, info = self.task.step(self._act.action)
            self.clock.mark("sim_s")
            own = own_outcome(reward, terminated | truncated, info)
            self._act.receive(reward, info["valid"])
            self._act.forget(terminated | truncated)
            self._episodes.add(*own, info["valid"], info["bad"])
            if self._recorder is not None:
                self._recorder.add(self._act.obs, self._act.action, reward, terminated, truncated, info)
        self.clock.mark("act_s")

    def phases(self) -> dict[str, float]:
        """Seconds of the last block by phase: the paper's T_s and T_a. Waits for the device, once."""
        return self.clock.read()

    def latencies(self) -> list[float]:
        """Seconds of each step of the last block, from one observation to the next. Call `phases` before."""
        return self.clock.laps("sim_s")

    def _draw(self) -> Tensor:
        if self._noise is None:
            return self._zero_action
        return self._distribution.noise((self.task.num_env,), self._noise, self.task.device)
