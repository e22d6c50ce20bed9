import os
import random
import threading
from pathlib import Path

import pytest
import torch

from gmi_drl.errors import MachineError, UsageError
from gmi_drl.replay import checkpoint
from gmi_drl.replay.checkpoint import INDEX, ROWS, STATE, restore, save
from gmi_drl.replay.limiters import MinSize, SampleToInsertRatio
from gmi_drl.replay.ring import Ring
from gmi_drl.replay.selectors import Fifo, Lifo, MaxHeap, Prioritized, TopK, Uniform
from gmi_drl.replay.storage import make_storage
from gmi_drl.replay.stream import Stream
from gmi_drl.replay.table_state import TableState
from tests.replay.signatures import NUMBERED
from tests.replay.tables import add, numbered_table
from tests.replay.test_ring import STEP, History
from tests.replay.test_ring import add as add_to_ring


def made(sampler=None, codec="none", **options):
    storage = make_storage(NUMBERED, 300, longest=3, codec=codec)
    table = numbered_table(max_size=40, sampler=sampler or Prioritized(0.6), storage=storage, **options)
    stream = Stream(storage)
    return table, stream, TableState(table, streams=[stream])


def play(table, stream, seed, steps=25):
    """Random operations. Returns all that was sampled."""
    chance, told = random.Random(seed), []
    for number in range(steps):
        keys = add(table, range(number, number + 4), float(chance.randint(1, 5)), stream)
        batch = table.sample(3)
        told += [batch.keys, batch.probabilities, batch.times_sampled, batch.fields["number"]]
        table.update(batch.keys, torch.tensor([chance.random() for _ in range(3)]))
        if chance.random() < 0.3:
            table.delete(keys[:1])
    return told


def test_all_files_of_a_checkpoint_are_on_the_disk_before_it_has_its_name(tmp_path, monkeypatch):
    table, stream, source = made()
    play(table, stream, 1, steps=2)
    synced, fsync = set(), os.fsync

    def recording(descriptor):
        if not (tmp_path / "a").exists():
            synced.add(Path(os.readlink(f"/proc/self/fd/{descriptor}")).name)
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", recording)
    save(tmp_path / "a", source, trainer_step=1)
    assert synced >= {STATE, ROWS, INDEX}


@pytest.mark.parametrize("codec", ["none", "zlib"])
@pytest.mark.parametrize("sampler", [lambda: Prioritized(0.6), Uniform, Fifo, Lifo, MaxHeap])
def test_a_table_goes_on_bit_for_bit(tmp_path, sampler, codec):
    limiter = lambda: SampleToInsertRatio(0.75, 2, 50.0)  # noqa: E731
    table, stream, source = made(sampler(), codec, limiter=limiter())
    play(table, stream, 1)
    save(tmp_path / "a", source, trainer_step=7)
    wanted = play(table, stream, 2)
    again, other_stream, other = made(sampler(), codec, limiter=limiter())
    play(again, other_stream, 3, steps=5)
    assert restore(tmp_path / "a", other) == 7
    got = play(again, other_stream, 2)
    assert all(torch.equal(one, two) for one, two in zip(wanted, got, strict=True))
    assert again.info() | {"storage": 0} == table.info() | {"storage": 0}
    assert again.storage.blocks.free == table.storage.blocks.free


def test_a_ring_goes_on_bit_for_bit(tmp_path):
    def new():
        return Ring(STEP, 3, 12, sampler=Prioritized(0.6))

    ring, again, history = new(), new(), History(1)
    for _ in range(15):
        add_to_ring(ring, history)
    ring.sample(5)
    save(tmp_path / "ring", ring, 3)
    assert restore(tmp_path / "ring", again) == 3
    for _ in range(3):
        fields, boundary, valid = history.step()
        one, two = (each.sample(9) for each in (ring, again))
        assert torch.equal(one.keys, two.keys)
        assert torch.equal(one.fields["next/obs"], two.fields["next/obs"])
        for each in (ring, again):
            each.add(fields, boundary, valid)


def test_another_source_is_refused_with_all_differences(tmp_path):
    table, stream, source = made()
    play(table, stream, 1)
    save(tmp_path / "a", source, 0)
    other = numbered_table(max_size=41, sampler=Uniform(), storage=make_storage(NUMBERED, 300, longest=3))
    with pytest.raises(UsageError) as caught:
        restore(tmp_path / "a", TableState(other))
    for text in ("max_size was 40, is 41", "sampler was Prioritized(0.6), is Uniform", "streams was 1, is 0"):
        assert text in str(caught.value)
    assert other.size == 0


def test_selectors_with_other_arguments_are_refused(tmp_path):
    table, stream, source = made(Prioritized(0.5))
    play(table, stream, 1)
    save(tmp_path / "a", source, 0)
    with pytest.raises(UsageError, match=r"sampler was Prioritized\(0.5\), is Prioritized\(1.0\)"):
        restore(tmp_path / "a", made(Prioritized(1.0))[2])
    save(tmp_path / "b", Ring(STEP, 3, 12, sampler=Prioritized(0.5)), 0)
    with pytest.raises(UsageError, match=r"sampler was Prioritized\(0.5\), is Uniform"):
        restore(tmp_path / "b", Ring(STEP, 3, 12))
    assert [str(selector) for selector in (TopK(3), MaxHeap())] == ["TopK(3)", "MaxHeap"]


def test_altered_checkpoints_are_refused(tmp_path):
    """Hundreds of cuts and changed bytes in each file; the table stays as it was."""
    table, stream, source = made()
    play(table, stream, 1, steps=4)
    save(tmp_path / "a", source, 0)
    again, _, other = made()
    chance = random.Random(0)
    for name in (INDEX, STATE, ROWS):
        path = tmp_path / "a" / name
        whole = path.read_bytes()
        for number in range(60):
            place = chance.randrange(len(whole))
            changed = whole[:place] + bytes([whole[place] ^ (1 << chance.randrange(8))]) + whole[place + 1 :]
            path.write_bytes(whole[:place] if number % 3 == 0 else changed)
            with pytest.raises(UsageError):
                restore(tmp_path / "a", other)
        path.unlink()
        with pytest.raises(UsageError):
            restore(tmp_path / "a", other)
        path.write_bytes(whole)
    assert again.size == 0
    restore(tmp_path / "a", other)
    assert again.size == table.size


def test_a_full_disk_leaves_the_last_checkpoint_and_the_table(tmp_path, monkeypatch):
    table, stream, source = made()
    play(table, stream, 1)
    save(tmp_path / "a", source, 1)

    def full(tensors, path):
        path.write_bytes(b"half")
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(checkpoint, "save_file", full)
        with pytest.raises(MachineError, match="No space left"):
            save(tmp_path / "a", source, 2)
    assert [path.name for path in tmp_path.iterdir()] == ["a"]
    assert restore(tmp_path / "a", made()[2]) == 1
    play(table, stream, 2)


def test_a_save_that_was_interrupted_leaves_the_former(tmp_path):
    table, stream, source = made()
    play(table, stream, 1)
    save(tmp_path / "a", source, 1)
    (tmp_path / "a").rename(tmp_path / ".a.former")
    assert restore(tmp_path / "a", made()[2]) == 1


def test_inserts_and_samples_go_on_while_it_is_saved(tmp_path):
    table, stream, source = made(limiter=MinSize(1))
    play(table, stream, 1)
    wanted = numbers_by_key(table)
    with source.snapshot() as state:
        thread = threading.Thread(target=play, args=(table, stream, 2, 10))
        thread.start()
        thread.join(60)
        assert not thread.is_alive()
        again, _, other = made(limiter=MinSize(1))
        other.load_state_dict(state)
    assert numbers_by_key(table) != wanted
    assert numbers_by_key(again) == wanted


def test_a_stream_that_is_written_to_meanwhile_holds_its_block_in_each_snapshot():
    table, stream, source = made(limiter=MinSize(1))
    is_over = threading.Event()

    def write():
        number = 0
        while not is_over.is_set():
            add(table, range(number, number + 4), 1.0, stream)
            number += 4

    thread = threading.Thread(target=write)
    thread.start()
    try:
        for _ in range(60):
            with source.snapshot() as state:
                of, blocks = state["streams"]["0"], state["blocks"]
            if of["block"] >= 0:
                assert blocks["holders"][of["block"]] == of["holder"] and of["block"] not in blocks["free"]
                assert of["end"] == (of["block"] + 1) * table.storage.blocks.block_steps and of["next"] <= of["end"]
            assert len(set(blocks["free"].tolist())) == len(blocks["free"])
            assert not (blocks["references"][blocks["free"]] > 0).any()
    finally:
        is_over.set()
        thread.join()


def numbers_by_key(table):
    batch = table.sample(table.size, distinct=True)
    return dict(zip(batch.keys.tolist(), batch.fields["number"].flatten().tolist(), strict=True))


def test_tables_that_share_a_storage_are_saved_together(tmp_path):
    def both():
        first, _, _ = made()
        return first, numbered_table(max_size=2, storage=first.storage)

    first, second = both()
    with pytest.raises(UsageError, match="2 tables share"):
        TableState(first)
    with pytest.raises(UsageError, match="their storages differ"):
        TableState(first, numbered_table())
    stream = Stream(first.storage)
    places = stream.append({"number": torch.arange(5)})
    for table in (first, second):
        table.insert(places, 1, torch.arange(5.0) + 1)
    save(tmp_path / "both", TableState(first, second), 3)
    restored = both()
    assert restore(tmp_path / "both", TableState(*restored)) == 3
    for table, other in zip((first, second), restored, strict=True):
        assert torch.equal(table.sample(40).fields["number"], other.sample(40).fields["number"])
        assert table.size == other.size


class InsertedBefore:
    """A lock of a table that another thread had just before, to insert steps that wait to be copied to the device."""

    def __init__(self, table, stream):
        self.table, self.stream, self.lock = table, stream, table.lock
        table.lock = self

    def __enter__(self):
        self.table.lock = self.lock
        add(self.table, [7, 8], stream=self.stream)
        assert self.table.storage.pending == 2
        return self.lock.__enter__()

    def __exit__(self, *error):
        return self.lock.__exit__(*error)


def test_rows_of_items_that_come_just_before_a_snapshot_are_in_it(tmp_path):
    def new():
        return numbered_table(storage=make_storage(NUMBERED, 100, placement="device"))

    table, again = new(), new()
    InsertedBefore(table, Stream(table.storage))
    save(tmp_path / "a", TableState(table), 0)
    restore(tmp_path / "a", TableState(again))
    assert sorted(numbers_by_key(again).values()) == [7, 8]


def test_the_oldest_items_go_first_after_a_restore_too(tmp_path):
    def new():
        return numbered_table(max_size=1000, storage=make_storage(NUMBERED, 160))

    table, again = new(), new()
    stream = Stream(table.storage)
    for first in range(0, 310, 10):  # the last of 16 blocks is the oldest then
        add(table, range(first, first + 10), stream=stream)
    save(tmp_path / "a", TableState(table), 0)
    restore(tmp_path / "a", TableState(again))
    add(again, range(310, 320))
    assert sorted(numbers_by_key(again).values()) == list(range(160, 320))
