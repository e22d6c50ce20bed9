"""The network of the sequence policy: a decoder over returns-to-go, observations and actions."""

import torch
from torch import Tensor, nn
from torch.nn.functional import gelu, one_hot, scaled_dot_product_attention

from gmi_drl.algo.distributions import distribution_of
from gmi_drl.config.learners.sequence import TOKENS, WIDER, SequenceConfig
from gmi_drl.errors import UsageError
from gmi_drl.workload import TaskSpec
from gmi_drl.workload.spaces import Action

NEEDS_REWARDS = "a sequence policy needs the rewards of the steps before: play or serve it, it is not exported"


class Block(nn.Module):
    """Causal attention, then two linear layers, each after a norm and added to what came in.

    Args:
        width: Numbers of a token.
        heads: Divide it.
    """

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self._heads = heads
        self.before_attention, self.before_layers = nn.LayerNorm(width), nn.LayerNorm(width)
        self.read, self.write = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.wider, self.narrower = nn.Linear(width, WIDER * width), nn.Linear(WIDER * width, width)

    def forward(self, tokens: Tensor) -> Tensor:
        """Tokens `[B, L, W]`, each after those before it."""
        batch, length, width = tokens.shape
        read = self.read(self.before_attention(tokens)).view(batch, length, 3, self._heads, width // self._heads)
        query, key, value = read.permute(2, 0, 3, 1, 4).unbind()
        seen = scaled_dot_product_attention(query, key, value, is_causal=True)
        tokens = tokens + self.write(seen.transpose(1, 2).reshape(batch, length, width))
        tokens = tokens + self.narrower(gelu(self.wider(self.before_layers(tokens))))
        return tokens


class SequencePolicy(nn.Module):
    """Predicts the action of each step of a context from what came before it (arXiv 2106.01345, section 3).

    Args:
        spec: Of a task with vectors.
        config: Sizes.

    Attributes:
        observation: What it sees.
        distribution: Of the actions.
        context: K, steps of a context at most.
        log_std: Of the actions' numbers, `[C]`: how far recorded ones are from what it predicts.
    """

    def __init__(self, spec: TaskSpec, config: SequenceConfig) -> None:
        super().__init__()
        self.observation, self.distribution, self.context = (
            spec.observation,
            distribution_of(spec.action),
            config.context,
        )
        width, params = config.width, spec.action.params
        self.places = nn.Parameter(0.02 * torch.randn(config.context, width))
        self.of_return, self.of_obs = nn.Linear(1, width), nn.Linear(spec.observation.size, width)
        self.of_action = nn.Linear(params, width)
        self.blocks = nn.ModuleList(Block(width, config.heads) for _ in range(config.layers))
        self.norm, self.out = nn.LayerNorm(width), nn.Linear(width, params)
        self.log_std = nn.Parameter(torch.zeros(spec.action.numbers))

    def forward(self, to_go: Tensor, obs: Tensor, action: Tensor) -> Tensor:
        """Params `[B, T, P]` of the actions of each step, from the steps before it and its own observation.

        Args:
            to_go: Scaled returns-to-go, `[B, T]`, T of K at most.
            obs: Scaled observations, `[B, T, O]`.
            action: Actions, `[B, T, A]`. That of a step is read by later ones only.
        """
        batch, steps = to_go.shape
        read = (
            self.of_return(to_go[..., None]),
            self.of_obs(obs),
            self.of_action(read_as(action, self.distribution.action)),
        )
        tokens = (torch.stack(read, 2) + self.places[:steps, None]).view(batch, TOKENS * steps, -1)
        for block in self.blocks:
            tokens = block(tokens)
        after_obs = tokens.view(batch, steps, TOKENS, -1)[:, :, 1]
        params: Tensor = self.out(self.norm(after_obs))
        return params

    def parameters_in_order(self) -> list[nn.Parameter]:
        """All that is trained, the standard deviations last."""
        return [*(one for one in self.parameters() if one is not self.log_std), self.log_std]

    def mode(self, obs: Tensor) -> Tensor:
        """Refused: it acts on contexts, by `SequenceAgent`."""
        raise UsageError(NEEDS_REWARDS)

    def act(self, obs: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
        """As `mode`."""
        return self.mode(obs), noise


def read_as(action: Tensor, kind: Action) -> Tensor:
    """Actions `[..., A]` as the network reads them, `[..., P]`: numbers within [-1, 1], a one for each category."""
    numbers = action[..., : kind.numbers].clamp(-1, 1)
    choices = action[..., kind.numbers :].long()
    ones = [one_hot(choices[..., place], size) for place, size in enumerate(kind.categories)]
    return torch.cat((numbers, *ones), -1) if ones else numbers
