"""The network of DQN: a value for each action."""

import torch
from torch import Tensor, nn

from gmi_drl.algo.distributions.categorical import MASKED, Categorical
from gmi_drl.algo.networks.encoder import Encoder
from gmi_drl.algo.networks.mlp import hidden, mlp
from gmi_drl.config.learners import DQNConfig
from gmi_drl.workload import TaskSpec
from gmi_drl.workload.network_sizes import ACTOR
from gmi_drl.workload.observations import parts_of


class QNetwork(nn.Module):
    """Values of all actions; an `ExploringPolicy` that takes the best, or one at random.

    Args:
        spec: Of a task with one choice among K categories.
        config: Layers; `epsilon_end` is the share of random actions until a learner sets it.

    Attributes:
        distribution: Of the noise.
        exploration: The share of random actions, `[]`.
    """

    exploration: Tensor

    def __init__(self, spec: TaskSpec, config: DQNConfig) -> None:
        super().__init__()
        observation, settings = spec.observation, config.network
        self.observation, self.distribution = observation, Categorical(spec.action)
        self._masks = [part.name for part in observation.of_kind("mask")]
        self.encoder = Encoder(observation, settings.seen(observation, ACTOR), settings)
        width, layers = self.encoder.width, list[nn.Module]()
        if settings.hidden:
            layers, width = hidden([width, *settings.hidden], settings.activation), settings.hidden[-1]
        self.trunk = nn.Sequential(*layers)
        between = [config.stream] if config.dueling else []
        self.advantage = mlp([width, *between, spec.action.params], 1.0, settings.activation)
        self.state_value = mlp([width, *between, 1], 1.0, settings.activation) if config.dueling else None
        self.register_buffer("exploration", torch.tensor(config.epsilon_end), persistent=False)
        for layer in self.modules():
            if isinstance(layer, nn.Linear | nn.Conv2d):
                layer.reset_parameters()  # torch's own weights: with larger ones the first targets are noise

    def forward(self, obs: Tensor) -> Tensor:
        """Values `[..., K]` of normalised observations; `MASKED` of actions that are not allowed.

        With dueling the value of the state plus the advantages without their mean (Wang et al., equation 9).
        """
        features = self.trunk(self.encoder(obs))
        values: Tensor = self.advantage(features)
        if self.state_value is not None:
            values = self.state_value(features) + values - values.mean(-1, keepdim=True)
        if not self._masks:
            return values
        parts = parts_of(obs, self.observation)
        return values.masked_fill(torch.cat([parts[name] for name in self._masks], -1) == 0, MASKED)

    @property
    def is_plain(self) -> bool:
        """Whether it is linear layers alone, from the observation as it is, whose gradients `Backprop` computes."""
        sees_all = self.observation.is_vector and self.encoder.width == self.observation.size
        return sees_all and self.state_value is None

    def layers(self) -> nn.Sequential:
        """Those of a plain network."""
        return nn.Sequential(*self.trunk, *self.advantage)

    def act(self, obs: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
        """Actions `[..., 1]` and values `[..., K]`; see `epsilon_greedy`."""
        values = self(obs)
        return epsilon_greedy(values, noise, self.exploration), values

    def mode(self, obs: Tensor) -> Tensor:
        """The best actions `[..., 1]`."""
        return self.distribution.mode(self(obs))

    def parameters_in_order(self) -> list[nn.Parameter]:
        """All."""
        return list(self.parameters())


def epsilon_greedy(values: Tensor, noise: Tensor, epsilon: Tensor) -> Tensor:
    """The best of K actions, or with the probability epsilon one of those that are allowed, each as likely.

    Where Gumbel noise is largest is uniform, and independent of how large it is there, which decides whether to explore
    (the largest of K is distributed as Gumbel's with the location log K).

    Args:
        values: `[..., K]`; `MASKED` where an action is not allowed.
        noise: Gumbel noise `[..., K]`; zeros for the best action.
        epsilon: `[]`.

    Returns:
        Numbers of actions, float32 `[..., 1]`.
    """
    is_allowed = values > MASKED / 2
    largest, chosen = noise.masked_fill(~is_allowed, MASKED).max(-1)
    rank = (-is_allowed.sum(-1) * (-largest).exp()).exp()  # uniform in [0, 1]
    return torch.where(rank > 1 - epsilon, chosen, values.argmax(-1)).unsqueeze(-1).float()
