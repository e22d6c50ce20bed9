"""Policy and value: separate networks (paper Table 6), or one trunk with two heads."""

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from gmi_drl.algo.distributions import Mixed, distribution_of
from gmi_drl.algo.distributions.categorical import MASKED
from gmi_drl.algo.networks.encoder import Encoder
from gmi_drl.algo.networks.memory import Memory, Past, Recurrent
from gmi_drl.algo.networks.mlp import hidden, mlp
from gmi_drl.config.learners import OurConfig
from gmi_drl.workload import TaskSpec
from gmi_drl.workload.network_sizes import ACTOR, CRITIC, NetworkSettings
from gmi_drl.workload.observations import parts_of
from gmi_drl.workload.spaces import Observation

ACTOR_GAIN, CRITIC_GAIN = 0.01, 1.0
"""Of the last layers: first actions are near the mean, or all categories about equally likely."""


def make_policy(spec: TaskSpec, config: OurConfig) -> "ActorCritic":
    """The policy and value networks of a configuration."""
    return ActorCritic(spec, config.network, config.init_std)


class Outputs(NamedTuple):
    """What a policy with memories gives for L steps of B environments."""

    params: Tensor
    """Of the distribution, `[L * B, P]`."""

    value: Tensor
    """`[L * B]`."""

    state: Tensor
    """After the last step, `[B, S]`."""


class ActorCritic(nn.Module):
    """The policy and the value of a task; the policy's standard deviations do not depend on the observation.

    Parameters are ordered actor, log_std, critic: two contiguous parts of the flat vector, whose gradients are clipped
    apart. With a shared trunk, which comes first, they are one part.

    With memories the methods for observations take their `Past`, and observations `[L * B, *shape]`, step by step.

    Args:
        spec: The task's observation and action.
        settings: Of the networks; None for the task's hidden layers.
        init_std: Initial standard deviation of numbers.

    Attributes:
        distribution: Of the actions.
        actor: Gives the distribution's params, `[..., P]`; of the trunk's result if there is one.
        critic: Gives values, `[..., 1]`; of the trunk's result if there is one.
        trunk: What both share; None if they share nothing.
        bf16: Whether products of all layers but the last are in bfloat16; weights, gradients, memories and losses are
            in float32.
        state_size: Numbers of the state of its memories, of one environment; 0 without memories.
    """

    def __init__(self, spec: TaskSpec, settings: NetworkSettings | None = None, init_std: float = 1.0) -> None:
        super().__init__()
        settings = settings or NetworkSettings(spec.hidden)
        self.observation, self.distribution = spec.observation, distribution_of(spec.action)
        self._masks = spec.observation.of_kind("mask")
        self.bf16 = settings.bf16
        self.state_size = settings.state_size(spec.observation)
        outputs = spec.action.params
        self.actor: nn.Module
        self.critic: nn.Module
        self.trunk: nn.Module | None = None
        if settings.is_shared(spec.observation):
            self.trunk, width = _trunk(spec.observation, settings)
            self.actor = mlp([width, outputs], ACTOR_GAIN, settings.activation)
        else:
            self.actor = _network(spec.observation, ACTOR, outputs, ACTOR_GAIN, settings)
        self.log_std = nn.Parameter(torch.full((spec.action.numbers,), math.log(init_std)))
        if self.trunk is not None:
            self.critic = mlp([width, 1], CRITIC_GAIN, settings.activation)
        else:
            self.critic = _network(spec.observation, CRITIC, 1, CRITIC_GAIN, settings)

    @property
    def is_plain(self) -> bool:
        """Whether it is two MLPs and no mixed action, so that `PlainGradient` computes its gradients."""
        networks = (self.actor, self.critic)
        are_linear = all(isinstance(one, nn.Sequential) and isinstance(one[0], nn.Linear) for one in networks)
        return self.trunk is None and not isinstance(self.distribution, Mixed) and are_linear

    @property
    def actor_size(self) -> int:
        """Number of parameters of the policy: its network and its standard deviations; with a shared trunk, of all."""
        parameters = self.parameters() if self.trunk is not None else (*self.actor.parameters(), self.log_std)
        return sum(parameter.numel() for parameter in parameters)

    def parameters_in_order(self) -> list[nn.Parameter]:
        """Those of a shared trunk, then actor, log_std, critic (`Module.parameters` would put log_std first)."""
        shared: Iterator[nn.Parameter] = iter(()) if self.trunk is None else self.trunk.parameters()
        return [*shared, *self.actor.parameters(), self.log_std, *self.critic.parameters()]

    def act(self, obs: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
        """Sample `(action [..., A], params [..., P])` for normalised observations, by the distribution's noise."""
        params = self.params(obs)
        return self.distribution.sample(params, self.log_std, noise), params

    def mode(self, obs: Tensor) -> Tensor:
        """The most likely actions `[..., A]` for normalised observations."""
        return self.distribution.mode(self.params(obs))

    def params(self, obs: Tensor) -> Tensor:
        """The distribution's numbers `[..., P]` for normalised observations `[..., *shape]`."""
        features = obs if self.trunk is None else self._run(self.trunk, obs)
        return self._allowed(self._run(self.actor, features), obs)

    def value(self, obs: Tensor, past: Past | None = None) -> Tensor:
        """Value `[...]` of normalised observations `[..., *shape]`."""
        if past is not None:
            return self.remember(obs, past).value
        features = obs if self.trunk is None else self._run(self.trunk, obs)
        return self._run(self.critic, features).squeeze(-1)  # type: ignore[no-any-return]

    def remember(self, obs: Tensor, past: Past) -> Outputs:
        """Params, value and the next state of a policy with memories, for normalised observations `[L * B, *shape]`."""
        if self.trunk is not None:
            features, state = self._run(self.trunk, obs, past)
            return Outputs(*self._heads(features, obs), state)
        ours, theirs = (Past(state, past.done) for state in past.state.chunk(2, -1))
        (params, state), (value, other) = self._run(self.actor, obs, ours), self._run(self.critic, obs, theirs)
        return Outputs(self._allowed(params, obs), value.squeeze(-1), torch.cat((state, other), -1))

    def params_and_value(self, obs: Tensor, past: Past | None = None) -> tuple[Tensor, Tensor]:
        """Both at once; a shared trunk is computed once."""
        if past is not None:
            return self.remember(obs, past)[:2]
        if self.trunk is None:
            return self.params(obs), self.value(obs)
        return self._heads(self._run(self.trunk, obs), obs)

    def log_prob(self, action: Tensor, params: Tensor) -> Tensor:
        """Log density `[...]` of actions `[..., A]` under the policy with these params."""
        return self.distribution.log_prob(action, params, self.log_std)

    def entropy(self, params: Tensor | None = None) -> Tensor:
        """Entropy `[...]` of the action distribution; a scalar, without params, if it is always the same."""
        return self.distribution.entropy(params, self.log_std)

    def _heads(self, features: Tensor, obs: Tensor) -> tuple[Tensor, Tensor]:
        """Params and value by the heads of a shared trunk."""
        return self._allowed(self._run(self.actor, features), obs), self._run(self.critic, features).squeeze(-1)

    def _run(self, network: nn.Module, *inputs: Tensor | Past) -> Any:
        """The result of a network in float32: with `bf16` products of all layers but the last are in bfloat16."""
        if not self.bf16:
            return network(*inputs)
        with torch.autocast(self.log_std.device.type, torch.bfloat16):
            result = network(*inputs)
        return (result[0].float(), result[1]) if isinstance(result, tuple) else result.float()

    def _allowed(self, params: Tensor, obs: Tensor) -> Tensor:
        """The params with the logits of categories that a mask forbids at `MASKED`."""
        if not self._masks:
            return params
        parts = parts_of(obs, self.observation)
        forbidden = torch.cat([parts[mask.name] for mask in self._masks], -1) == 0
        numbers = self.distribution.action.numbers
        logits = params[..., numbers:].masked_fill(forbidden, MASKED)
        return torch.cat((params[..., :numbers], logits), -1) if numbers else logits


def _network(observation: Observation, who: str, outputs: int, gain: float, settings: NetworkSettings) -> nn.Module:
    """A network from observations to outputs; of a vector that it sees whole, the linear layers alone."""
    encoder, width = _encoder(observation, who, settings)
    if settings.memory != "none":
        memory = Memory(width, settings)
        return Recurrent(encoder, memory, mlp([memory.size, *settings.hidden, outputs], gain, settings.activation))
    layers = mlp([width, *settings.hidden, outputs], gain, settings.activation)
    return layers if isinstance(encoder, nn.Identity) else nn.Sequential(encoder, *layers)


def _trunk(observation: Observation, settings: NetworkSettings) -> tuple[nn.Module, int]:
    """All layers but the last, for policy and value alike, and their width."""
    seen = settings.seen(observation, ACTOR)
    encoder = Encoder(observation, seen, settings)
    if settings.memory == "none":
        trunk: nn.Module = nn.Sequential(encoder, *hidden([encoder.width, *settings.hidden], settings.activation))
        return trunk, settings.hidden[-1] if settings.hidden else encoder.width
    memory = Memory(encoder.width, settings)
    trunk = Recurrent(encoder, memory, nn.Sequential(*hidden([memory.size, *settings.hidden], settings.activation)))
    return trunk, settings.hidden[-1] if settings.hidden else memory.size


def _encoder(observation: Observation, who: str, settings: NetworkSettings) -> tuple[nn.Module, int]:
    """From an observation to what the layers of `who` get, and its width. A vector that it sees whole stays."""
    seen = settings.seen(observation, who)
    if observation.is_vector and seen == observation.parts:
        return nn.Identity(), observation.size
    encoder = Encoder(observation, seen, settings)
    return encoder, encoder.width
