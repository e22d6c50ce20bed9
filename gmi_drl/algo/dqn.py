"""DQN over a flat bucket, whose gradients are summed over the group."""

import copy
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import huber_loss

from gmi_drl.algo.backprop import Backprop
from gmi_drl.algo.distributions.categorical import MASKED
from gmi_drl.algo.normaliser import Normaliser
from gmi_drl.algo.q_networks import QNetwork
from gmi_drl.algo.replay_agent import ReplayAgent
from gmi_drl.algo.replay_learner import ReplayLearner, frozen_copy
from gmi_drl.config.learners import DQNConfig
from gmi_drl.workload import TaskSpec

EVERYTHING = slice(None)


class DQN(ReplayLearner[DQNConfig]):
    """Deep Q-learning with Huber's loss (Mnih et al., Nature 2015; van Hasselt et al., arXiv 1509.06461).

    For arguments see `ReplayLearner`.
    """

    METRICS = ("q_loss", "q_mean")

    def __init__(self, agent: ReplayAgent, config: DQNConfig, **options: Any) -> None:
        assert isinstance(agent.policy, QNetwork)
        self.network = agent.policy
        self._parameters = self.network.parameters_in_order()
        size = sum(parameter.numel() for parameter in self._parameters)
        self.target = copy.deepcopy(self.network)
        super().__init__(agent, [size], config, **options)
        self._target = frozen_copy(self.target, self.flat.vector).vector
        if self.network.is_plain:
            self._layers, self._target_layers = Backprop(self.network.layers()), Backprop(self.target.layers())

    def explore(self, steps: int) -> None:
        """See `ReplayLearner`: all is random before the first update, then the share falls evenly with the steps."""
        self.network.exploration.fill_(self.epsilon(self.steps + steps) if self.updates else 1.0)

    def epsilon(self, steps: int) -> float:
        """The share of random actions after these control steps of all environments."""
        config = self.config
        done = min(1.0, steps / config.epsilon_steps)
        return config.epsilon_start + done * (config.epsilon_end - config.epsilon_start)

    def take_step(self) -> None:
        """See `ReplayLearner`."""
        self.run(self._gradient_by_layers if self.network.is_plain else self._gradient)
        self.reduce(self.flat.bucket)
        self.run(self._apply)
        if self.updates % self.config.target_every == 0:
            self._target.copy_(self.flat.vector)

    def metrics(self) -> dict[str, float]:
        """See `ReplayLearner`."""
        return {**self.means(), "epsilon": self.epsilon(self.steps)}

    def state_dict(self) -> dict[str, Tensor]:
        """See `ReplayLearner`."""
        return {**super().state_dict(), "target": self._target}

    @torch.no_grad()
    def _gradient_by_layers(self) -> None:
        """The same as `_gradient`, without autograd, and with both observations in one pass."""
        obs, next_obs = self.observations()
        chosen, count = self.fields["action"].to(torch.int64), self.batch
        outputs = self._layers.forward(torch.cat((obs, next_obs)) if self.config.double else obs)
        values = outputs[-1][:count]
        following = self._target_layers.forward(next_obs)[-1]
        value, by = values.gather(-1, chosen).squeeze(-1), outputs[-1][count:] if self.config.double else following
        error = value - self._wanted(following, by)
        slope = error.clamp(-1, 1)
        share = self.weights * (self.share / count)
        gradient = torch.zeros_like(values).scatter_(-1, chosen, (slope * share)[:, None])
        self._layers.backward([output[:count] for output in outputs], gradient)
        torch.abs(error, out=self.errors)
        self.note(torch.dot(slope * (error - 0.5 * slope), self.weights) / count, value.mean())

    def _gradient(self) -> None:
        self.flat.bucket.zero_()
        obs, next_obs = self.observations()
        chosen = self.fields["action"].to(torch.int64)
        value = self.network(obs).gather(-1, chosen).squeeze(-1)
        with torch.no_grad():
            following = self.target(next_obs)
            by = self.network(next_obs) if self.config.double else following
        error = value - self._wanted(following, by)
        loss = (self.weights * huber_loss(error, torch.zeros_like(error), reduction="none")).mean()
        self.add_gradient(loss, self._parameters)
        self.errors.copy_(error.detach().abs())
        self.note(loss, value.mean())

    @torch.no_grad()
    def _wanted(self, following: Tensor, by: Tensor) -> Tensor:
        """Rewards, and the discounted values of what follows, `[batch]`.

        Args:
            following: Values `[batch, K]` of the target.
            by: Values `[batch, K]` whose largest chooses the action.
        """
        best = following.gather(-1, by.argmax(-1, keepdim=True)).squeeze(-1)
        best.masked_fill_(best <= MASKED / 2, 0)  # a cut-off episode whose last mask allows nothing
        return torch.addcmul(self.reward * self.config.reward_scale, self.discount, best)

    @torch.no_grad()
    def _apply(self) -> None:
        norm = torch.linalg.vector_norm(self.flat.gradient)
        self.flat.gradient.mul_((self.config.max_grad_norm / (norm + 1e-6)).clamp(max=1.0))
        self.apply(EVERYTHING, norm)


def make_dqn_agent(spec: TaskSpec, config: DQNConfig, device: torch.device, *, seed: int) -> ReplayAgent:
    """The agent at the start of a run with this seed, the same on every GMI."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        network = QNetwork(spec, config)
    return ReplayAgent(network.to(device), Normaliser(spec.observation, device))
