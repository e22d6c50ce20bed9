"""Shards that go on from their checkpoints, on as many ranks or others."""

import logging

import pytest
import torch

from gmi_drl.errors import MachineError, UsageError
from gmi_drl.replay.fields import Field, Signature
from gmi_drl.replay.selectors import Lifo as LifoRemover
from gmi_drl.replay.shards import Fifo, TopK, Uniform, Weighted, dealing
from tests.replay.shards.shard_ranks import on_ranks, trajectories


def fill(shards, count=6):
    tags = list(range(10 * shards.rank, 10 * shards.rank + count))
    shards.insert(trajectories(tags), priorities=torch.arange(1.0, count + 1), version=3)


def lists_of(shards):
    """Lists of all kinds, with what was collected by them."""
    found = []
    for way in (Uniform(), Weighted(0.7), TopK(), Fifo()):
        indices = shards.select(4, way)
        fields, lengths = shards.collect(indices)
        found.append((indices.tolist(), fields["value"].tolist(), fields["tag"].tolist(), lengths.tolist()))
    return found, shards.epoch()


@pytest.mark.parametrize("placement", ["cpu", "shared"])
def test_as_many_ranks_go_on_with_the_same_lists(tmp_path, placement):
    def job(shards):
        fill(shards)
        for _ in range(3):
            shards.collect(shards.select(5, Weighted(0.7)))
        shards.evict(torch.tensor([1]))
        shards.sync()
        shards.save(tmp_path, 7)
        return lists_of(shards)

    def again(shards):
        assert shards.restore(tmp_path) == 7
        return lists_of(shards)

    went_on = on_ranks(2, job, placement=placement)
    assert on_ranks(2, again, placement=placement) == went_on
    assert len(list(tmp_path.iterdir())) == 2


def test_in_the_middle_of_prefetching_what_was_taken_counts(tmp_path):
    def job(shards):
        fill(shards)
        batches = shards.prefetch(3, 4)
        for _ in range(2):
            next(batches)
        shards.save(tmp_path, 1)
        rest = [next(batches).indices.tolist() for _ in range(4)]
        shards.end_prefetch()
        return rest

    def again(shards):
        shards.restore(tmp_path)
        return [shards.select(4).tolist() for _ in range(4)]

    went_on = on_ranks(2, job)
    assert on_ranks(2, again) == went_on


@pytest.mark.parametrize("size", [1, 3])
def test_another_number_of_ranks_gets_all_dealt_out_anew(tmp_path, caplog, size):
    def job(shards):
        fill(shards, 2 + shards.rank)
        shards.select(1)
        written = shards.allocate(1)
        shards.insert(trajectories([50 + shards.rank], steps=2), priorities=9.0)
        shards.save(tmp_path, 5)
        written.abandon()

    def again(shards):
        assert shards.restore(tmp_path) == 5
        oldest = shards.select(7, Fifo())
        fields, lengths = shards.collect(oldest)
        best = shards.collect(shards.select(2, TopK()))[0]["tag"][:, 0].tolist()
        return (fields["tag"][:, 0] // 100).tolist(), lengths.tolist(), best, shards.shard.table.size

    on_ranks(2, job)
    with caplog.at_level(logging.WARNING):
        found = on_ranks(size, again, steps=5)
    assert "7 trajectories of 2 ranks were dealt out anew to" in caplog.text
    assert {tuple(tags) for tags, *_ in found} == {(0, 10, 1, 11, 12, 50, 51)}
    assert found[0][1] == [4, 4, 4, 4, 4, 2, 2]
    assert sorted(found[0][2]) == [5000, 5100]
    assert [size for *_, size in found] == {1: [7], 3: [3, 2, 2]}[size]


def test_rows_of_one_saved_shard_at_a_time_are_in_memory(tmp_path, monkeypatch):
    on_ranks(3, lambda shards: (fill(shards, 2), shards.save(tmp_path, 5)))
    loaded = []

    class Watched(dealing._Saved):
        def __init__(self, folder, shard):
            assert not any(one._rows for one in loaded)
            super().__init__(folder, shard)
            loaded.append(self)

    monkeypatch.setattr(dealing, "_Saved", Watched)
    assert on_ranks(1, lambda shards: shards.restore(tmp_path)) == [5]
    assert len(loaded) == 6


def test_a_folder_that_is_gone_when_it_is_read_again_leaves_the_shard_free(tmp_path, monkeypatch):
    on_ranks(2, lambda shards: (fill(shards, 2), shards.save(tmp_path, 5)))
    read, load = [], dealing._Saved

    def once(folder, shard):
        if folder in read:
            raise UsageError(f"{folder} is gone")
        read.append(folder)
        return load(folder, shard)

    def job(shards):
        with pytest.raises(UsageError, match="is gone"):
            shards.restore(tmp_path)
        monkeypatch.setattr(dealing, "_Saved", load)
        return shards.restore(tmp_path), len(shards.allocate(2, timeout_s=0.0).indices)

    monkeypatch.setattr(dealing, "_Saved", once)
    assert on_ranks(1, job, trajectories=6) == [(5, 2)]


def refusal(size, folder, **options):
    def job(shards):
        with pytest.raises((UsageError, MachineError)) as caught:
            shards.restore(folder)
        return str(caught.value)

    return on_ranks(size, job, **options)


def test_refusals(tmp_path):
    def job(shards):
        fill(shards)
        with pytest.raises(UsageError, match="0 or more, not -1"):
            shards.save(tmp_path, -1)
        shards.save(tmp_path, 4)
        with pytest.raises(UsageError, match="has 6 trajectories: restore before any is committed"):
            shards.restore(tmp_path)

    assert "no step of 2 shards that all ranks have (rank 0 has none, rank 1 has none)" in refusal(2, tmp_path)[0]
    on_ranks(2, job)
    assert "12 trajectories for 1 shards of 8: each needs room for 12" in refusal(1, tmp_path)[0]
    assert "another signature" in refusal(1, tmp_path, signature=Signature([Field("x")]))[0]
    assert "up to 4 steps, the shards have 3" in refusal(1, tmp_path, steps=3)[0]
    file = tmp_path / "step-4.shard-1-of-2" / "rows.safetensors"
    file.write_bytes(file.read_bytes()[:-1] + b"x")
    first, second = refusal(2, tmp_path)
    assert "rank 1 could not restore step 4 of its shard" in first
    assert "rows.safetensors was changed since it was written" in second
    assert "was changed since it was written" in refusal(1, tmp_path, trajectories=20)[0]


def test_a_rank_that_cannot_write_is_named_and_the_former_checkpoint_stays(tmp_path):
    def job(shards):
        fill(shards)
        shards.save(tmp_path, 1)
        if shards.rank == 1:
            (tmp_path / ".step-2.shard-1-of-2.draft").write_text("in the way")
        shards.barrier()
        with pytest.raises(MachineError) as caught:
            shards.save(tmp_path, 2)
        return str(caught.value)

    first, second = on_ranks(2, job)
    assert "rank 1 could not save step 2" in first
    assert "cannot be written" in second

    def again(shards):
        return shards.restore(tmp_path)

    assert on_ranks(2, again) == [1, 1]


def test_the_latest_step_that_all_have(tmp_path):
    def job(shards):
        fill(shards)
        shards.save(tmp_path, 1)
        shards.save(tmp_path, 2)

    on_ranks(2, job)
    kept = sorted(path.name for path in tmp_path.iterdir())
    assert kept == ["step-2.shard-0-of-2", "step-2.shard-1-of-2"]
    (tmp_path / "step-2.shard-0-of-2").rename(tmp_path / "step-3.shard-0-of-2")
    assert "rank 0 has [3], rank 1 has [2]" in refusal(2, tmp_path)[0]


def test_a_remover_of_another_class_is_refused(tmp_path):
    def job(shards):
        fill(shards)
        shards.save(tmp_path, 4)

    on_ranks(1, job)
    assert "0.remover was Fifo, is Lifo" in refusal(1, tmp_path, remover=LifoRemover())[0]


@pytest.mark.parametrize("size", [1, 2])
def test_a_checkpoint_that_was_put_aside_by_a_save_that_was_interrupted_is_restored(tmp_path, size):
    def job(shards):
        fill(shards)
        shards.save(tmp_path, 4)

    def again(shards):
        found = shards.restore(tmp_path), shards.shard.table.size
        shards.save(tmp_path, 5)
        return found

    on_ranks(2, job)
    (tmp_path / "step-4.shard-1-of-2").rename(tmp_path / ".step-4.shard-1-of-2.former")
    assert on_ranks(size, again, trajectories=16 // size) == [(4, 12 // size)] * size
    names = [f"step-5.shard-{rank}-of-{size}" for rank in range(size)]
    assert sorted(path.name for path in tmp_path.iterdir()) == names
