"""Shards of other ranks of this host, whose rows this rank reads in shared memory (GEAR 3.4)."""

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch

from gmi_drl.replay.indices import Integers
from gmi_drl.replay.shards.meeting import Meeting
from gmi_drl.replay.shards.shard import Shard
from gmi_drl.replay.storage import Storage
from gmi_drl.replay.storage.shared import MappedStorage, SharedStorage, bytes_of_columns
from gmi_drl.replay.words import this_host


@dataclass(frozen=True)
class NearShard:
    """The rows of another rank's shard, to be read. Its rank says what may be read, and until when.

    Args:
        storage: As of `Shard`.
        trajectories: As of `Shard`.
        steps: As of `Shard`.
    """

    storage: Storage
    trajectories: int
    steps: int
    is_padded: ClassVar[bool] = True

    def first_of(self, indices: Integers) -> Integers:
        """See `Shard`."""
        return indices * self.steps


def open_near(meeting: Meeting, shard: Shard) -> tuple[dict[int, NearShard], frozenset[int]]:
    """Map the shards of other ranks of this host that lie in shared memory; a call of all ranks.

    A rank whose memory cannot be mapped, as in another container, is reached by the link as one of another host.

    Args:
        meeting: Of the ranks, which have agreed on the sizes of shards.
        shard: Of this rank.

    Returns:
        The shards that this rank reads, by their rank, and the ranks that read this one's.
    """
    own = _address_of(shard) if meeting.device.type == "cpu" else None
    told = [json.loads(text) for text in meeting.texts("agreement", json.dumps(own))]
    shards = {}
    for rank in meeting.others:
        if own and told[rank] and told[rank][0] == own[0] and (storage := _mapped(told[rank], shard.storage)):
            shards[rank] = NearShard(storage, shard.trajectories, shard.steps)
    marks = torch.tensor([rank in shards for rank in range(meeting.size)], dtype=torch.int64)
    read = meeting.gather("agreement", marks, [meeting.size] * meeting.size)
    return shards, frozenset(rank for rank in meeting.others if read[rank][meeting.rank])


def _address_of(shard: Shard) -> Sequence[Any] | None:
    """Where other processes find this memory: host, process, descriptor, device, inode. None if it is not shared."""
    host, storage = this_host(), shard.storage
    if not (host and shard.is_padded and isinstance(storage, SharedStorage) and storage.device.type == "cpu"):
        return None
    there = os.fstat(storage.descriptor)
    return [host, os.getpid(), storage.descriptor, there.st_dev, there.st_ino]


def _mapped(address: Sequence[Any], own: Storage) -> MappedStorage | None:
    """The memory at an address, which has the sizes of this rank's own; None if this process may not read it."""
    _, pid, number, *place = address
    try:
        descriptor = _open(pid, number)
    except OSError:
        return None
    try:
        there = os.fstat(descriptor)
        if [there.st_dev, there.st_ino] != place or there.st_size != bytes_of_columns(own.signature, own.steps):
            return None
        # A shard may be large, and opening waits: pages are mapped when they are touched.
        return MappedStorage(own.signature, own.steps, own.longest, descriptor, writable=False, at_once=False)
    except OSError:
        return None
    finally:
        os.close(descriptor)


def _open(pid: int, number: int) -> int:
    """A descriptor of what another process has open."""
    return os.open(f"/proc/{pid}/fd/{number}", os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
