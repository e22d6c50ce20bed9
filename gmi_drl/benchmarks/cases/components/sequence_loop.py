"""A sequence policy by torch's own modules and a plain loop, as one would write it without gmi-drl."""

import torch
from torch import Tensor, nn

from gmi_drl.algo.normaliser import Normaliser
from gmi_drl.config.learners.sequence import TOKENS, WIDER, SequenceConfig
from gmi_drl.replay import EpisodeSet


class Decoder(nn.Module):
    """The network of `SequencePolicy` for actions that are numbers, out of `nn.TransformerEncoderLayer`.

    Args:
        obs: Numbers of an observation.
        actions: Numbers of an action.
        config: Sizes.

    Attributes:
        later: Minus infinity where a token must not look, `[L, L]`.
    """

    later: Tensor

    def __init__(self, obs: int, actions: int, config: SequenceConfig) -> None:
        super().__init__()
        width = config.width
        self.places = nn.Parameter(0.02 * torch.randn(config.context, width))
        self.of_return, self.of_obs = nn.Linear(1, width), nn.Linear(obs, width)
        self.of_action = nn.Linear(actions, width)
        self.blocks = nn.ModuleList(
            nn.TransformerEncoderLayer(
                width, config.heads, WIDER * width, dropout=0.0, activation="gelu", batch_first=True, norm_first=True
            )
            for _ in range(config.layers)
        )
        self.norm, self.out = nn.LayerNorm(width), nn.Linear(width, actions)
        self.log_std = nn.Parameter(torch.zeros(actions))
        later = nn.Transformer.generate_square_subsequent_mask(TOKENS * config.context)
        self.register_buffer("later", later, persistent=False)

    def forward(self, to_go: Tensor, obs: Tensor, action: Tensor) -> Tensor:
        """Predicted actions `[B, K, A]` of contexts of K steps; see `SequencePolicy`."""
        read = self.of_return(to_go[..., None]), self.of_obs(obs), self.of_action(action.clamp(-1, 1))
        tokens = (torch.stack(read, 2) + self.places[:, None]).flatten(1, 2)
        for block in self.blocks:
            tokens = block(tokens, src_mask=self.later, is_causal=True)
        params: Tensor = self.out(self.norm(tokens[:, 1::TOKENS]))
        return params


class Loop:
    """Updates of a decoder by Adam, from contexts gathered out of all steps as tensors in memory.

    Args:
        episodes: Each of K steps at least.
        config: Hyper-parameters.
        seed: Of weights and contexts.
    """

    def __init__(self, episodes: EpisodeSet, config: SequenceConfig, seed: int) -> None:
        self.config, fields = config, episodes.storage.rows.fields
        self.obs, self.action, self.to_go = (fields[name].clone() for name in ("obs", "action", "return_to_go"))
        self.first, self.starts = episodes.first, episodes.lengths - config.context + 1
        moments = episodes.moments["obs"].float()
        self.shift, squares = moments[1:].chunk(2)
        self.scale = (squares / moments[0]).sqrt() + Normaliser.EPSILON
        self.unit = float(episodes.returns.abs().max())
        torch.manual_seed(seed)
        self.decoder = Decoder(self.obs.shape[1], self.action.shape[1], config)
        self.adam = torch.optim.Adam(self.decoder.parameters(), lr=config.learning_rate)

    def update(self) -> None:
        """Learn from a batch of contexts, drawn with equal chances."""
        episode = torch.multinomial(self.starts.double(), self.config.batch, replacement=True)
        start = self.first[episode] + (torch.rand(len(episode)) * self.starts[episode]).long()
        rows = start[:, None] + torch.arange(self.config.context)
        loss, spread = self.losses(self.to_go[rows], self.obs[rows], self.action[rows])
        self.adam.zero_grad()
        (loss + spread).backward()  # type: ignore[no-untyped-call]
        weights = [one for one in self.decoder.parameters() if one is not self.decoder.log_std]
        nn.utils.clip_grad_norm_(weights, self.config.max_grad_norm)
        self.adam.step()

    def losses(self, to_go: Tensor, obs: Tensor, action: Tensor) -> tuple[Tensor, Tensor]:
        """The losses of predicted actions, and of their standard deviations, as in `Sequence`."""
        log_std = self.decoder.log_std
        params = self.decoder(to_go / self.unit, (obs - self.shift) / self.scale, action)
        distance = (params - action.clamp(-1, 1)).square()
        spread = 0.5 * distance.detach() * (-2 * log_std).exp() + log_std
        return distance.mean(), spread.sum(-1).mean()
