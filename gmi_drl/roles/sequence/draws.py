"""Contexts of recorded episodes: those of a GMI's own episodes, drawn by a generator of its own."""

import torch
from torch import Tensor

from gmi_drl.algo.sequence import Contexts
from gmi_drl.errors import UsageError
from gmi_drl.replay.episodes import EpisodeSet
from gmi_drl.replay.importing.moments import MOST
from gmi_drl.replay.rows import Rows

OBS, ACTION, TO_GO = "obs", "action", "return_to_go"
BEST_SHARE = 0.1
"""Part of the episodes whose mean return the policy is asked for, if no other one is given."""


class Draws:
    """Draws contexts of K steps from every `ranks`-th episode.

    Args:
        episodes: Mapped; all GMIs map the same folder.
        rank: Of this GMI: it has the episodes `rank`, `rank + ranks`, and so on.
        ranks: GMIs.
        context: K.
        exponent: See `SequenceConfig.return_exponent`.
        generator: On the CPU.
    """

    def __init__(
        self,
        episodes: EpisodeSet,
        rank: int,
        ranks: int,
        context: int,
        exponent: float,
        generator: torch.Generator,
    ) -> None:
        self._episodes, self._context, self.generator = episodes, context, generator
        self._own = torch.arange(rank, len(episodes), ranks)
        self._starts = (episodes.lengths[self._own] - context + 1).clamp(min=1)
        returns, least = episodes.returns, episodes.returns.min()
        goodness = ((returns - least) / (returns.max() - least).clamp(min=1e-9))[self._own]
        weights = self._starts * goodness.pow(exponent)
        if not float(weights.sum()) > 0:
            weights = self._starts.double()  # all of its episodes are as bad as the worst
        self._ends = weights.double().cumsum(0)
        self._rows: Rows | None = None

    def draw(self, batch: int) -> Contexts:
        """Draw `batch` contexts with replacement. The next call writes over them."""
        draws = torch.rand(2, batch, generator=self.generator, dtype=torch.float64)
        chosen = torch.searchsorted(self._ends, draws[0] * self._ends[-1], right=True).clamp_(max=len(self._own) - 1)
        starts = (draws[1] * self._starts[chosen]).long()
        numbers = self._own[chosen]
        self._rows = rows = self._episodes.windows(numbers, starts, self._context, out=self._rows)
        left = (self._episodes.lengths[numbers] - starts)[:, None]
        is_step = torch.arange(self._context) < left
        return Contexts(rows.fields[TO_GO], rows.fields[OBS], rows.fields[ACTION], is_step)


def scaling_of(episodes: EpisodeSet, target: float | None) -> Tensor:
    """The statistics of a `SequenceScaling`: moments of observations, the return to ask for, that which is 1.

    Raises:
        UsageError: if the folder has no moments of observations.
    """
    if OBS not in episodes.moments:
        raise UsageError(f"{episodes.folder} has no moments of {OBS}: an import keeps those of {MOST} numbers at most")
    returns = episodes.returns
    if target is None:
        best = max(1, round(BEST_SHARE * len(returns)))
        target = float(returns.topk(best).values.mean())
    unit = float(returns.abs().max())
    return torch.cat((episodes.moments[OBS], torch.tensor([target, unit or 1.0], dtype=torch.float64)))
