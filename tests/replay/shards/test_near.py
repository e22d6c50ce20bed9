"""Ranks of one host read each other's shards in shared memory; others get rows by the link."""

import os
import threading

import pytest
import torch

from gmi_drl.replay.shards import collection, near, reading
from tests.replay.shards.shard_ranks import on_ranks, trajectories


@pytest.fixture(autouse=True)
def _large(monkeypatch):
    """No rows are so few that they go with the agreement."""
    monkeypatch.setattr(collection, "AT_ONCE_BYTES", 0)


def collected(shards):
    """Tags `[n, T]`, lengths, and the bytes that this rank has sent of rows, for a list of both ranks' trajectories."""
    shards.insert(trajectories([2 * shards.rank, 2 * shards.rank + 1]), lengths=torch.tensor([4, 3]))
    fields, lengths = shards.collect(torch.tensor([3, 0, 2, 3]))
    return fields["tag"].tolist(), lengths.tolist(), shards.bytes["trajectories"]


WHOLE = ([[300, 301, 302, 0], [0, 1, 2, 3], [200, 201, 202, 203], [300, 301, 302, 0]], [3, 4, 4, 3])


@pytest.mark.parametrize("large", [1, 10**6])
def test_rows_are_read_and_only_lengths_are_sent(large, monkeypatch):
    monkeypatch.setattr(collection, "IN_PLACE_BYTES", large)
    first, second = on_ranks(2, collected, trajectories=2, placement="shared")
    assert first == (*WHOLE, 8 * 1) and second == (*WHOLE, 8 * 3)


def test_windows_and_parts_of_heads_are_read():
    def job(shards):
        shards.insert(trajectories([2 * shards.rank, 2 * shards.rank + 1]), lengths=torch.tensor([4, 3]))
        window = torch.tensor([0.0, 0.99, 0.99, 0.5], dtype=torch.float64), 2
        fields, lengths = shards.collect(torch.tensor([3, 1, 2, 0]), ["b"], window=window, split=True)
        return fields["tag"].tolist(), lengths.tolist(), shards.bytes["trajectories"]

    first, second = on_ranks(2, job, trajectories=2, placement="shared")
    assert first == ([[300, 301], [101, 102]], [2, 2], 8)
    assert second == ([[202, 203], [1, 2]], [2, 2], 8)


def test_ranks_that_are_no_heads_are_read():
    def job(shards):
        shards.insert(trajectories([shards.rank]))
        fields, lengths = shards.collect(torch.tensor([2, 1, 0]))
        return fields["tag"][:, 0].tolist(), len(lengths), shards.bytes["trajectories"]

    options = {"trajectories": 1, "heads": [1], "placement": "shared"}
    assert on_ranks(3, job, **options) == [([], 0, 8), ([200, 100, 0], 3, 0), ([], 0, 8)]


def test_a_rank_whose_rows_are_read_waits_until_that_is_done(monkeypatch):
    """Else it could write over them. Only the second rank reads: the list is of the first one's rows."""
    has_read, put = threading.Event(), reading.ShardReader.put

    def slow(self, *arguments, **options):
        if isinstance(self._shard, near.NearShard):
            threading.Event().wait(0.2)
            put(self, *arguments, **options)
            has_read.set()
            return
        put(self, *arguments, **options)

    monkeypatch.setattr(reading.ShardReader, "put", slow)

    def job(shards):
        shards.insert(trajectories([shards.rank]))
        shards.collect(torch.tensor([0]))
        return has_read.is_set()

    assert on_ranks(2, job, trajectories=1, placement="shared") == [True, True]


@pytest.mark.parametrize("why", ["own memory", "another host", "not allowed", "not mapped", "another file"])
def test_what_cannot_be_mapped_goes_by_the_link(why, monkeypatch):
    def refuse(*arguments, **options):
        raise PermissionError(13, "Permission denied")

    if why == "another host":
        hosts = iter(("a", "b"))
        monkeypatch.setattr(near, "this_host", lambda: next(hosts))
    elif why == "not allowed":
        monkeypatch.setattr(near.os, "open", refuse)
    elif why == "not mapped":
        monkeypatch.setattr(near, "MappedStorage", refuse)
    elif why == "another file":  # whose descriptor has the same number by now
        opened = os.open
        monkeypatch.setattr(near.os, "open", lambda path, flags: opened("/dev/null", flags))
    first, second = on_ranks(2, collected, trajectories=2, placement="cpu" if why == "own memory" else "shared")
    rows = 8 * 4 * 2
    assert first == (*WHOLE, 8 * 2 + rows) and second == (*WHOLE, 8 * 4 + 3 * rows)


def test_of_two_ranks_one_may_read_and_the_other_not(monkeypatch):
    opened, seen = os.open, []

    def open_once(path, flags):
        seen.append(path)
        if len(seen) > 1:
            raise PermissionError(13, "Permission denied")
        return opened(path, flags)

    monkeypatch.setattr(near.os, "open", open_once)
    first, second = on_ranks(2, collected, trajectories=2, placement="shared")
    assert first[:2] == second[:2] == WHOLE
    assert (first[2] == 8) != (second[2] == 8 * 3)  # one of them has sent lengths alone
