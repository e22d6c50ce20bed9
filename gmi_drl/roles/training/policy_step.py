"""What an agent does between two steps of its worlds: the one way of acting, whoever trains, plays or serves."""

import torch
from torch import Tensor

from gmi_drl.algo.agent import Agent
from gmi_drl.cuda_graph import Captured
from gmi_drl.tasks import Task


class PolicyStep:
    """Actions of an agent in worlds, written in place; on a GPU one graph.

    Args:
        task: The worlds, already on their first observation.
        agent: Who acts.
        cuda_graphs: Replay what the agent does as a CUDA graph, on a GPU.

    Attributes:
        obs: What the agent saw in the last call, `[N, O]`.
        action: What it did about it, `[N, A]`.
        mean: Of its policy there, `[N, A]`.
    """

    def __init__(self, task: Task, agent: Agent, *, cuda_graphs: bool = True) -> None:
        self._task, self._agent = task, agent
        self.obs = torch.zeros_like(task.obs)
        shape = task.num_env, task.spec.num_actions
        self._noise, self.action, self.mean = (torch.zeros(shape, device=task.device) for _ in range(3))
        self._sample_on_obs = Captured(self._sample, task.device, is_on=cuda_graphs)

    def __call__(self, noise: Tensor) -> None:
        """Act on the current observation, with standard normal noise `[N, A]`; with zeros by the mean."""
        self.obs.copy_(self._task.obs)
        self._noise.copy_(noise)
        self._sample_on_obs()

    def _sample(self) -> None:
        action, mean = self._agent.sample(self.obs, self._noise)
        self.action.copy_(action)
        self.mean.copy_(mean)
