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


def test_a_rank_that_fails_while_it_reads_keeps_nobody_waiting(monkeypatch):
    put, failing = reading.ShardReader.put, [True]

    def fail_once(self, *arguments, **options):
        if isinstance(self._shard, near.NearShard) and failing:
            failing.pop()
            raise MemoryError("no room")
        put(self, *arguments, **options)

    monkeypatch.setattr(reading.ShardReader, "put", fail_once)

    def job(shards):
        shards.insert(trajectories([5 + shards.rank]))
        failed = False
        try:
            shards.collect(torch.tensor([0]))
        except MemoryError:
            failed = True
        return failed, shards.collect(torch.tensor([0, 1]))[0]["tag"][:, 0].tolist()

    tags = [500, 600]
    assert on_ranks(2, job, trajectories=1, placement="shared") == [(False, tags), (True, tags)]


def test_closed_shards_map_no_others():
    def job(shards):
        before = len(shards._collection._near)
        shards.close()
        return before, len(shards._collection._near)

    assert on_ranks(2, job, placement="shared") == [(1, 0)] * 2


def refuse(*arguments, **options):
    raise PermissionError(13, "Permission denied")


def another_file(pid, number):
    """A file of the same size."""
    size = os.stat(f"/proc/{pid}/fd/{number}").st_size
    descriptor = os.memfd_create("other")
    os.ftruncate(descriptor, size)
    return descriptor


@pytest.mark.parametrize("why", ["own memory", "another host", "not allowed", "not mapped", "another file"])
def test_what_cannot_be_mapped_goes_by_the_link(why, monkeypatch):
    hosts = iter(("a", "b"))
    if why == "another host":
        monkeypatch.setattr(near, "this_host", lambda: next(hosts))
    elif why == "not allowed":
        monkeypatch.setattr(near, "_open", refuse)
    elif why == "not mapped":
        monkeypatch.setattr(near, "MappedStorage", refuse)
    elif why == "another file":
        monkeypatch.setattr(near, "_open", another_file)
    first, second = on_ranks(2, collected, trajectories=2, placement="cpu" if why == "own memory" else "shared")
    rows = 8 * 4 * 2
    assert first == (*WHOLE, 8 * 2 + rows) and second == (*WHOLE, 8 * 4 + 3 * rows)


@pytest.mark.parametrize("large", [1, 10**6])
def test_of_three_ranks_some_may_read_and_others_not(large, monkeypatch):
    """Each pair goes its own way: of six readings two are possible."""
    monkeypatch.setattr(collection, "IN_PLACE_BYTES", large)
    opened, lock, seen = near._open, threading.Lock(), []

    def open_some(pid, number):
        with lock:
            seen.append(number)
            if len(seen) % 3:
                refuse()
        return opened(pid, number)

    monkeypatch.setattr(near, "_open", open_some)

    def job(shards):
        shards.insert(trajectories([shards.rank]))
        tags = [shards.collect(torch.tensor(places))[0]["tag"][:, 3].tolist() for places in ([2, 0, 1, 1], [1], [0, 2])]
        return tags, len(shards._collection._near)

    results = on_ranks(3, job, trajectories=1, placement="shared")
    assert [tags for tags, _ in results] == [[[203, 3, 103, 103], [103], [3, 203]]] * 3
    assert sum(number for _, number in results) == 2
