"""Contexts of recorded episodes: drawn over all GMIs, from the shards in which they have them."""

import time
from collections.abc import Iterator, Mapping

import torch
from torch import Tensor

from gmi_drl.algo.sequence import Contexts
from gmi_drl.comm.links.link import MovingLink
from gmi_drl.errors import UsageError
from gmi_drl.replay.episodes import EpisodeSet
from gmi_drl.replay.importing.moments import MOST
from gmi_drl.replay.shards import ByPriority, Shards, Weighted, open_shards_of_folder
from gmi_drl.replay.shards.prefetch import Collected

OBS, ACTION, TO_GO = "obs", "action", "return_to_go"
BEST_SHARE = 0.1
"""Part of the episodes whose mean return the policy is asked for, if no other one is given."""

AHEAD = 2
"""Batches that are made while one is learnt from."""


class Draws:
    """Draws batches of contexts of K steps, of which each GMI gets a part of its own.

    `draw`, `load_state_dict` and `close` are calls of all GMIs. Other numbers of GMIs draw others, as likely.

    Args:
        episodes: Mapped; all GMIs map the same folder.
        link: To the other GMIs; each owns a part of the episodes.
        context: K.
        batch: Contexts of a batch, over all GMIs.
        exponent: See `SequenceConfig.return_exponent`.
        seed: Of all draws, the same on all GMIs.

    Attributes:
        share: The part of a batch that is this GMI's.
        wait_s: Seconds in which `draw` has waited so far.

    Raises:
        UsageError: if there are fewer episodes than GMIs, or the GMIs differ.
    """

    def __init__(
        self, episodes: EpisodeSet, link: MovingLink, *, context: int, batch: int, exponent: float, seed: int
    ) -> None:
        self._context, self._batch, fields = context, batch, episodes.signature.by_name
        self._columns = tuple(dict.fromkeys(fields[name].column for name in (TO_GO, OBS, ACTION)))
        self._shards: Shards = open_shards_of_folder(
            link,
            episodes,
            placement=ByPriority(tuple(range(link.size))),
            priorities=weights_of(episodes, context, exponent),
            seed=seed,
        )
        own = batch * (link.rank + 1) // link.size - batch * link.rank // link.size
        self.share, self.wait_s = own / batch, 0.0
        self._batches: Iterator[Collected] | None = None

    def draw(self) -> Contexts:
        """This GMI's part of the next batch. The next call may write over it."""
        if self._batches is None:
            self._batches = self._shards.prefetch(
                AHEAD, self._batch, Weighted(), columns=self._columns, window=self._context, split=True
            )
        began = time.perf_counter()
        _, fields, lengths = next(self._batches)
        self.wait_s += time.perf_counter() - began
        return self._contexts(fields, lengths)

    def state_dict(self) -> dict[str, Tensor]:
        """On what the next batches depend, the same on all GMIs."""
        return self._shards.state_dict()

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Go on with the batches that would have come next, on as many GMIs."""
        self._rest()
        self._shards.load_state_dict(state)

    def close(self) -> None:
        """Leave the other GMIs, all of which have drawn as often."""
        self._rest()
        self._shards.close()

    def _contexts(self, fields: Mapping[str, Tensor], lengths: Tensor) -> Contexts:
        is_step = torch.arange(self._context) < lengths[:, None]
        return Contexts(fields[TO_GO], fields[OBS], fields[ACTION], is_step)

    def _rest(self) -> None:
        self._shards.end_prefetch()
        self._batches = None


def weights_of(episodes: EpisodeSet, context: int, exponent: float) -> Tensor:
    """How likely each episode is, float64 `[n]`: by its contexts, and by its return as `return_exponent` says."""
    places: Tensor = (episodes.lengths - context + 1).clamp(min=1).double()
    returns, least = episodes.returns, episodes.returns.min()
    goodness = (returns - least) / (returns.max() - least).clamp(min=1e-9)
    weights = places * goodness.pow(exponent)
    return weights if float(weights.sum()) > 0 else places  # all are as bad as the worst


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
