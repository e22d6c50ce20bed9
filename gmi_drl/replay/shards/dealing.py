"""Shards of a checkpoint, dealt out anew to another number of ranks."""

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gmi_drl.errors import UsageError
from gmi_drl.files import load_json, whole
from gmi_drl.replay import checkpoint
from gmi_drl.replay.checkpoint import INDEX, ReplayIndex
from gmi_drl.replay.fields import Signature
from gmi_drl.replay.items import KEY, STRETCHES, first_steps, lengths, priorities_of
from gmi_drl.replay.shards.meeting import Meeting, numbers_of
from gmi_drl.replay.shards.shard import Shard, stamp_of

_LOG = logging.getLogger(__name__)


@dataclass
class Counts:
    """What all ranks count alike.

    Args:
        selections: So far.
        epochs: So far.
        calls: Of all ranks.
    """

    selections: int
    epochs: float
    calls: int


def counts_of(numbers: Mapping[str, int]) -> Counts:
    """The counts in a saved state."""
    epochs = float(numbers_of(np.array([numbers["epochs"]])))
    return Counts(numbers["selections"], epochs, numbers["calls"])


class _Saved:
    """A shard of a checkpoint as it was saved, in memory."""

    def __init__(self, folder: Path, shard: Shard) -> None:
        folder = whole(folder)
        self._facts = load_json(ReplayIndex, folder / INDEX, "checkpoint of a shard").facts
        there = Signature.from_json(str(self._facts["signature"]))
        if difference := shard.storage.signature.difference(there):
            raise UsageError(f"{folder} has trajectories of another signature: {difference}")
        self.steps = int(self._facts["longest"])
        if self.steps > shard.steps:
            raise UsageError(f"{folder} has trajectories of up to {self.steps} steps, the shards have {shard.steps}")
        self.step = checkpoint.restore(folder, self)

    def facts(self) -> dict[str, Any]:
        """Its own."""
        return dict(self._facts)

    def snapshot(self) -> AbstractContextManager[dict[str, Any]]:
        """Nothing is saved."""
        return nullcontext({})

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Read the trajectories."""
        items, blocks = state["contents"]["0"]["items"], state["blocks"]
        is_there = items["records"][:, KEY] > 0
        records = items["records"][is_there]
        self.versions = items["versions"][is_there]
        self.lengths, self.priorities = lengths(records[:, STRETCHES]), priorities_of(records)
        at = first_steps(records[:, STRETCHES]) // self.steps
        self.stamps = state["shard"]["stamps"][at]
        used = ((blocks["references"] > 0) | (blocks["holders"] >= 0)).nonzero().flatten()
        self._places = torch.searchsorted(used, at)
        self._rows: Mapping[str, Tensor] = state["rows"]
        self.counts, self.committed = counts_of(state["shard"]), int(state["shard"]["committed"])

    def rows_of(self, number: int) -> Iterator[tuple[str, Tensor]]:
        """The rows of a trajectory by column."""
        first = int(self._places[number]) * self.steps
        for column, words in self._rows.items():
            yield column, words[first : first + int(self.lengths[number])]

    def forget_rows(self) -> None:
        """Free the memory of the rows."""
        self._rows = {}


def deal_out(folders: Sequence[Path], shard: Shard, meeting: Meeting) -> Counts:
    """Put this rank's part of saved shards into its own: all, the oldest first, one rank after the other.

    Rows of one saved shard at a time are in memory.

    Raises:
        UsageError: if they do not fit, or were altered.
    """
    saved = list[_Saved]()
    for folder in folders:
        saved.append(_Saved(folder, shard))
        saved[-1].forget_rows()
    stamps = torch.cat([each.stamps for each in saved])
    owners = torch.repeat_interleave(torch.arange(len(saved)), torch.tensor([len(each.stamps) for each in saved]))
    numbers = torch.cat([torch.arange(len(each.stamps)) for each in saved])
    share = -(-len(stamps) // meeting.size)
    if share > shard.trajectories:
        text = f"{len(stamps)} trajectories for {meeting.size} shards of {shard.trajectories}"
        raise UsageError(f"{folders[0].parent} has {text}: each needs room for {share}")
    mine = stamps.argsort(stable=True)[meeting.rank :: meeting.size]
    blocks = shard.lease(len(mine), 0.0) if len(mine) else []
    try:
        for number, folder in enumerate(folders):
            places = (owners[mine] == number).nonzero().flatten().tolist()
            old = _Saved(folder, shard) if places else saved[number]
            for place in places:
                for column, rows in old.rows_of(int(numbers[mine[place]])):
                    first = blocks[place] * shard.steps
                    shard.storage.rows.words[column][first : first + len(rows)] = rows
            old.forget_rows()
    except BaseException:  # a folder may have gone since it was read first
        shard.end_lease(blocks)
        raise
    shard.committed = max(each.committed for each in saved)
    place_in_order = torch.arange(len(stamps))[meeting.rank :: meeting.size]  # unlike stamps, no two are equal
    new = stamp_of(saved[0].counts.calls - 1, place_in_order)
    steps, priorities, versions = (torch.cat([getattr(each, name) for each in saved])[mine] for name in _FACTS)
    _commit(shard, blocks, steps, priorities, versions, new)
    ranks = f"{len(folders)} ranks were dealt out anew to {meeting.size}"
    _LOG.warning("%s: %d trajectories of %s", folders[0].parent, len(stamps), ranks)
    return saved[0].counts


_FACTS = ("lengths", "priorities", "versions")


def _commit(
    shard: Shard, blocks: list[int], steps: Tensor, priorities: Tensor, versions: Tensor, stamps: Tensor
) -> None:
    """Commit in order, those of one version at once."""
    cuts = [0, *((versions[1:] != versions[:-1]).nonzero().flatten() + 1).tolist(), len(versions)]
    for first, end in pairwise(cuts):
        if first < end:
            part = slice(first, end)
            shard.commit(blocks[part], steps[part], priorities[part], int(versions[first]), stamps[part])
