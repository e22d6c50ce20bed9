"""The Multi-Agent Transformer (Wen et al., arXiv 2205.14953): an encoder of observations, a decoder of actions."""

import torch
from torch import Tensor, nn
from torch.distributions import Normal
from torch.nn.functional import scaled_dot_product_attention


class Attention(nn.Module):
    """Attention of agents to agents.

    Args:
        width: Numbers of an agent.
        heads: Divide it.
        is_causal: Whether an agent sees itself and those before it alone.
    """

    def __init__(self, width: int, heads: int, is_causal: bool) -> None:
        super().__init__()
        self.heads, self.is_causal = heads, is_causal
        self.query, self.read, self.write = (
            nn.Linear(width, width),
            nn.Linear(width, 2 * width),
            nn.Linear(width, width),
        )

    def forward(self, asking: Tensor, seen: Tensor) -> Tensor:
        """What the agents `asking [B, L, W]` take from those `seen [B, L, W]`."""
        query, key, value = (
            part.unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for part in (self.query(asking), *self.read(seen).chunk(2, -1))
        )
        taken: Tensor = self.write(
            scaled_dot_product_attention(query, key, value, is_causal=self.is_causal).transpose(1, 2).flatten(2)
        )
        return taken


class Block(nn.Module):
    """One block, of the encoder or of the decoder. The decoder's asks for what earlier agents do, by what agents see.

    Args:
        width: Numbers of an agent.
        heads: Divide it.
        decodes: Whether it is the decoder's.
    """

    def __init__(self, width: int, heads: int, decodes: bool) -> None:
        super().__init__()
        self.own = Attention(width, heads, decodes)
        self.other = Attention(width, heads, decodes) if decodes else None
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(3 if decodes else 2))
        self.layers = nn.Sequential(nn.Linear(width, width), nn.GELU(), nn.Linear(width, width))

    def forward(self, agents: Tensor, encoded: Tensor) -> Tensor:
        """Agents `[B, L, W]` after the block; the encoder's does not look at `encoded`."""
        agents = self.norms[0](agents + self.own(agents, agents))
        if self.other is not None:
            agents = self.norms[1](encoded + self.other(encoded, agents))
        normed: Tensor = self.norms[-1](agents + self.layers(agents))
        return normed


class Transformer(nn.Module):
    """Values of what agents see, and their actions, each by those of the agents before it.

    Args:
        observation: Numbers that an agent sees.
        action: Numbers of an action.
        width: Of an agent within.
        blocks: Of the encoder and of the decoder each.
        heads: Of attention.
    """

    def __init__(self, observation: int, action: int, width: int = 64, blocks: int = 1, heads: int = 1) -> None:
        super().__init__()
        self.of_obs = nn.Sequential(nn.LayerNorm(observation), nn.Linear(observation, width), nn.GELU())
        self.of_action = nn.Sequential(nn.Linear(action, width), nn.GELU())
        self.encoder = nn.ModuleList(Block(width, heads, decodes=False) for _ in range(blocks))
        self.decoder = nn.ModuleList(Block(width, heads, decodes=True) for _ in range(blocks))
        self.value = nn.Sequential(nn.Linear(width, width), nn.GELU(), nn.LayerNorm(width), nn.Linear(width, 1))
        self.mean = nn.Sequential(nn.Linear(width, width), nn.GELU(), nn.LayerNorm(width), nn.Linear(width, action))
        self.log_std = nn.Parameter(torch.full((action,), -0.7))
        nn.init.normal_(self.mean[-1].weight, std=0.01)

    def forward(self, obs: Tensor, action: Tensor) -> tuple[Tensor, Tensor]:
        """Log-probabilities and values `[B, L]` of actions `[B, L, A]` for observations `[B, L, O]`, all at once."""
        encoded = self.encode(obs)
        log_prob = self.distribution(encoded, action).log_prob(action).sum(-1)
        return log_prob, self.value(encoded)[..., 0]

    @torch.no_grad()
    def act(self, obs: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Sampled actions `[B, L, A]`, their log-probabilities and values `[B, L]`, one agent after the other."""
        encoded = self.encode(obs)
        action = obs.new_zeros(*obs.shape[:2], self.log_std.numel())
        for agent in range(obs.shape[1]):
            action[:, agent] = self.distribution(encoded, action).sample()[:, agent]
        return action, self.distribution(encoded, action).log_prob(action).sum(-1), self.value(encoded)[..., 0]

    def encode(self, obs: Tensor) -> Tensor:
        """What the encoder makes of observations, `[B, L, W]`."""
        agents: Tensor = self.of_obs(obs)
        for block in self.encoder:
            agents = block(agents, agents)
        return agents

    def distribution(self, encoded: Tensor, action: Tensor) -> Normal:
        """Of the actions; that of an agent depends on the actions of those before it."""
        before = torch.cat((torch.zeros_like(action[:, :1]), action[:, :-1]), 1)
        agents = self.of_action(before)
        for block in self.decoder:
            agents = block(agents, encoded)
        return Normal(self.mean(agents), self.log_std.exp())
