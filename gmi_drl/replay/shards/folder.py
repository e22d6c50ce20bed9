"""Shards of a `.replay` folder: every rank maps it, and reads the episodes that it owns (GEAR 3.2, offline)."""

import zlib
from collections.abc import Sequence
from typing import ClassVar

import torch
from torch import Tensor

from gmi_drl.comm.links.link import MovingLink
from gmi_drl.errors import UsageError
from gmi_drl.replay.episodes import EpisodeSet
from gmi_drl.replay.indices import Integers
from gmi_drl.replay.selectors import Fifo
from gmi_drl.replay.shards.opening import opened
from gmi_drl.replay.shards.placement import ByPriority, Even, plan_placement
from gmi_drl.replay.shards.shard import Shard, stamp_of
from gmi_drl.replay.shards.shards import Shards


class FolderShard(Shard):
    """Episodes of a folder, which nobody writes: each lies where the file has it.

    Args:
        name: For messages.
        episodes: All of the folder.
        own: The numbers of those that this rank owns, int64 `[n]`.
        trajectories: Room of each shard, n at least.
        priorities: Of all episodes, float64.
        seed: Of nothing: a folder has no remover that draws.

    Attributes:
        numbers: The episodes of this shard by index, int64 `[n]`.
    """

    is_padded: ClassVar[bool] = False

    def __init__(
        self, name: str, episodes: EpisodeSet, own: Tensor, trajectories: int, priorities: Tensor, seed: int
    ) -> None:
        self._folder = episodes.folder
        self.numbers: Tensor = own[episodes.first[own].argsort()]
        self._first: Tensor = episodes.first[self.numbers]
        super().__init__(name, episodes.storage, trajectories, int(episodes.lengths.max()), Fifo(), seed)
        count, lengths = len(own), episodes.lengths[self.numbers]
        self.storage.blocks.hold(self.blocks_of(torch.arange(count)))  # for good: rows are there before their items
        self.keys[:count] = self.table.insert(self._first, lengths, priorities[self.numbers])
        self.lengths[:count], self.stamps[:count] = lengths, stamp_of(0, self.numbers)
        self.committed = count

    def first_of(self, indices: Integers) -> Integers:
        """See `Shard`."""
        first: Integers = self._first.numpy()[indices]
        return first

    def trajectory_at(self, first: Tensor) -> Tensor:
        """See `Shard`."""
        return torch.searchsorted(self._first, first)

    def blocks_of(self, indices: Tensor) -> Tensor:
        """See `Shard`."""
        return self.storage.blocks.block_of(self._first[indices])

    def lease(self, count: int, timeout_s: float) -> list[int]:
        """See `Shard`: nothing is written to a folder."""
        raise UsageError(f"{self.table.name} is of {self._folder}: open other shards for episodes that are made")


def open_shards_of_folder(
    link: MovingLink,
    episodes: EpisodeSet,
    *,
    placement: Even | ByPriority | None = None,
    priorities: Tensor | None = None,
    heads: Sequence[int] | None = None,
    seed: int = 0,
) -> Shards:
    """Open the episodes of a folder as shards; a call of all ranks, which all see the folder or a copy of it.

    Rows stay in the file, which all ranks map: a rank reads those of its own episodes. Other priorities hold until
    `close`; nothing can be added, and `save` has nothing to save: `state_dict` tells how far a training has come.

    Args:
        link: As in `open_shards`.
        episodes: Of the folder.
        placement: Which rank owns which episode: `Even()` (if None) or `ByPriority(heads)`.
        priorities: Of the episodes, 0 or more, float64 `[episodes]`; None for 1 each.
        heads: As in `open_shards`.
        seed: Of all draws.

    Raises:
        UsageError: if there are fewer episodes than ranks, a number is wrong, or ranks differ.
    """
    count = len(episodes)
    if count < link.size:
        raise UsageError(f"{episodes.folder} has {count} episodes, {link.size} ranks need one each: use fewer ranks")
    likely = torch.ones(count, dtype=torch.float64) if priorities is None else priorities.double()
    if likely.shape != (count,):
        raise UsageError(f"{episodes.folder} has {count} episodes, the priorities are {list(likely.shape)}")
    room = -(-count // link.size)
    owners = torch.tensor(plan_placement(likely.tolist(), room, link.size, placement or Even()))
    own = (owners == link.rank).nonzero().flatten()
    numbers = torch.cat((owners, episodes.first, episodes.lengths, likely.view(torch.int64)))
    of = f" of {count} episodes (checksum {zlib.crc32(numbers.contiguous().numpy().data):08x})"

    def make(name: str) -> Shard:
        return FolderShard(name, episodes, own, room, likely, seed)

    return opened(link, make, episodes.signature, heads, seed, of=of)
