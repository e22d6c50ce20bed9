"""How an agent acts between two steps of its environments, in training and in serving."""

import torch
from torch import Tensor

from gmi_drl.algo.networks.memory import Past
from gmi_drl.algo.policy import ActingAgent
from gmi_drl.cuda_graph import Captured
from gmi_drl.tasks import Task


class PolicyStep:
    """Samples the actions of an agent into fixed tensors; on a GPU as one CUDA graph.

    Args:
        task: The environments, already on their first observation.
        agent: Acts in them.
        cuda_graphs: Whether to use a CUDA graph, on a GPU.

    Attributes:
        obs: Observations of the last call, `[N, *shape]`.
        action: Actions of the last call, `[N, A]`.
        params: Of their distributions, `[N, P]`.
        state: Of the policy's memories after the last call, `[N, S]`; None without memories.
        value: Of the observations, `[N]`; with memories alone, which give it besides.
    """

    def __init__(self, task: Task, agent: ActingAgent, *, cuda_graphs: bool = True) -> None:
        self._task, self._agent = task, agent
        self.obs = torch.zeros_like(task.obs)
        widths = task.spec.action.params, task.spec.action.size, task.spec.action.params
        self._noise, self.action, self.params = (torch.zeros(task.num_env, w, device=task.device) for w in widths)
        self.state, self.value = agent.empty_state(task.num_env), torch.zeros(task.num_env, device=task.device)
        self._sample_on_obs = Captured(self._sample, task.device, is_on=cuda_graphs)

    def __call__(self, noise: Tensor) -> None:
        """Act on the current observation, with the noise `[N, P]` of its distribution; with zeros by the mode."""
        self.obs.copy_(self._task.obs)
        self._noise.copy_(noise)
        self._sample_on_obs()

    @property
    def past(self) -> Past | None:
        """What memories need besides the observations that follow the last call; None without memories."""
        return None if self.state is None else Past(self.state)

    def receive(self, reward: Tensor, valid: Tensor) -> None:
        """Tell the agent the rewards `[N]` of its last actions, and which of these steps were transitions."""
        self._agent.receive(reward, valid, self.state)

    def forget(self, done: Tensor) -> None:
        """Begin anew where `done [N]` is true: an episode has ended."""
        if self.state is not None:
            self.state.masked_fill_(done[:, None], 0)

    @torch.no_grad()
    def _sample(self) -> None:
        action, params, value = self._agent.sample(self.obs, self._noise, self.state)
        self.action.copy_(action)
        self.params.copy_(params)
        if value is not None:
            self.value.copy_(value)
