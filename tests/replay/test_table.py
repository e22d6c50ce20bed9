import math
import threading

import pytest
import torch

from gmi_drl.errors import UsageError
from gmi_drl.replay.limiters import MinSize, Queue, ReplayTimeoutError, SampleToInsertRatio
from gmi_drl.replay.selectors import Fifo, Lifo, MaxHeap, MinHeap, Prioritized, Uniform
from gmi_drl.replay.storage import make_storage
from gmi_drl.replay.stream import Stream
from gmi_drl.replay.table import Table
from tests.replay.signatures import MIXED, NUMBERED, mixed_steps
from tests.replay.tables import add, numbered_table, numbers_of


def test_a_batch_has_the_data_and_all_of_the_items():
    table = numbered_table(sampler=Fifo())
    keys = add(table, [5, 6, 7], 0.5)
    batch = table.sample(2)
    assert numbers_of(batch) == [5, 5]
    assert batch.keys.tolist() == [keys[0].item()] * 2
    assert batch.probabilities.tolist() == [1, 1]
    assert batch.priorities.tolist() == [0.5, 0.5]
    assert batch.times_sampled.tolist() == [2, 2]
    assert batch.lengths["step"].tolist() == [1, 1]
    assert batch.table_size == 3
    assert numbers_of(table.sample(3, distinct=True)) == [5, 6, 7]


def test_the_remover_evicts_after_the_insert():
    assert sorted(numbers_of(evicted(Fifo()).sample(3, distinct=True))) == [2, 3, 4]
    assert sorted(numbers_of(evicted(Lifo()).sample(3, distinct=True))) == [0, 1, 2]


def evicted(remover):
    table = numbered_table(max_size=3, remover=remover)
    stream = Stream(table.storage)
    for number in range(5):
        add(table, [number], stream=stream)
    return table


def test_a_batch_beyond_max_size_is_evicted_as_single_items_would_be():
    table = numbered_table(max_size=3, remover=MinHeap())
    keys = add(table, range(8), torch.tensor([3.0, 9, 4, 1, 7, 8, 2, 6]))
    assert sorted(numbers_of(table.sample(3, distinct=True))) == [1, 4, 5]
    assert table.update(keys, 1.0) == 3


def test_outdated_keys_are_ignored():
    table = numbered_table(max_size=3, sampler=MaxHeap())
    old = add(table, range(3))
    new = add(table, range(3, 6))
    assert table.update(torch.cat((old, new)), 5.0) == 3
    assert table.delete(torch.cat((old, new[:1], new[:1]))) == 1
    assert table.size == 2
    assert table.update(new[1:], torch.tensor([7.0, 8.0])) == 2
    assert numbers_of(table.sample(1)) == [5]
    assert table.update(torch.cat((new[1:], new[1:])), torch.tensor([1.0, 2, 9, 3])) == 4
    assert numbers_of(table.sample(1)) == [4]


def test_an_item_goes_after_its_last_sample():
    table = numbered_table(sampler=Fifo(), max_times_sampled=2, limiter=MinSize(1))
    add(table, [1, 2, 3])
    batch = table.sample(5)
    assert numbers_of(batch) == [1, 1, 2, 2, 3]
    assert batch.times_sampled.tolist() == [2, 2, 2, 2, 1]
    assert table.size == 1
    with pytest.raises(ReplayTimeoutError):
        table.sample(2, timeout_s=0.01)
    assert numbers_of(table.sample(1)) == [3]
    assert table.info()["unique_samples"] == 3


def test_random_samples_are_limited_too():
    table = numbered_table(sampler=Prioritized(1.0), max_times_sampled=3)
    add(table, range(4), torch.tensor([1.0, 100, 1, 0]))
    assert sorted(numbers_of(table.sample(9))) == [0, 0, 0, 1, 1, 1, 2, 2, 2]
    assert numbers_of(table.sample(3)) == [3, 3, 3]
    assert table.size == 0


def test_a_queue_hands_out_each_once_and_waits():
    table = numbered_table(max_size=4, sampler=Fifo(), limiter=Queue(3), max_times_sampled=1)
    received = []

    def take():
        for _ in range(5):
            received.extend(numbers_of(table.sample(2, timeout_s=60)))

    taker = threading.Thread(target=take)
    taker.start()
    stream = Stream(table.storage)
    for number in range(0, 10, 5):
        add(table, range(number, number + 5), stream=stream, timeout_s=60)
    taker.join()
    assert received == list(range(10))
    with pytest.raises(UsageError, match="1 to 3 items, not 4"):
        table.sample(4)


def test_who_is_refused_is_told_what_is_missing():
    table = numbered_table(limiter=SampleToInsertRatio(1.0, 2, (0.0, 4.0)))
    with pytest.raises(ReplayTimeoutError, match=r"0 items.* begin at 2 items, 2 are missing"):
        table.sample(1, timeout_s=0.01)
    with pytest.raises(ReplayTimeoutError, match="past 4: it waits for samples") as caught:
        add(table, range(7), timeout_s=0.01)
    assert caught.value.done == 4
    assert table.info()["waiting_inserts"] == 0


def test_closing_ends_all_waits():
    table = numbered_table()
    timer = threading.Timer(0.05, table.close)
    timer.start()
    with pytest.raises(ReplayTimeoutError, match="closed"):
        table.sample(1, timeout_s=60)
    timer.join()


def test_old_versions_are_not_drawn():
    table = numbered_table(sampler=Fifo(), max_size=4)
    stream = Stream(table.storage)
    keys = torch.cat([add(table, [number], version=number, stream=stream) for number in range(4)])
    assert numbers_of(table.sample(2, distinct=True, newer_than=1)) == [2, 3]
    assert table.info()["stale"] == 2
    table.update(keys, 3.0)
    assert numbers_of(table.sample(1, newer_than=0)) == [2]
    add(table, [9], version=1, stream=stream)  # evicts 0, and is stale itself
    assert (table.info()["stale"], table.size) == (2, 4)
    with pytest.raises(ReplayTimeoutError, match="4 items are stale"):
        table.sample(1, newer_than=9, timeout_s=0.01)
    table.reset()
    assert table.info()["stale"] == 0


def test_stretches_of_columns_may_differ():
    storage = make_storage(MIXED, 300, longest=4)
    table = Table("mixed", MIXED, sampler=Fifo(), remover=Lifo(), max_size=5, limiter=MinSize(1), storage=storage)
    places = Stream(storage).append(mixed_steps(8))
    table.insert(places[[1, 2]][:, None] + torch.tensor([0, 1]), torch.tensor([[3, 1], [2, 4]]), 1.0)
    batch = table.sample(2, distinct=True)
    assert batch.fields["step"].tolist() == [[1, 2, 3, 0], [2, 3, 0, 0]]
    assert batch.fields["image"][:, :, 0, 0].tolist() == [[2, 0, 0, 0], [3, 4, 5, 6]]
    assert batch.lengths["image"].tolist() == [1, 4]
    assert list(table.sample(1, columns=("image",)).fields) == ["image"]


@pytest.mark.parametrize("signature", [MIXED, NUMBERED], ids=["two columns", "one column"])
def test_an_item_needs_the_block_of_each_column_once(signature):
    storage = make_storage(signature, 300)
    table = Table("a", signature, sampler=Uniform(), remover=Fifo(), max_size=50, limiter=MinSize(1), storage=storage)
    steps = mixed_steps(40) if signature is MIXED else {"number": torch.arange(40)}
    keys = table.insert(Stream(storage).append(steps), 1, 1.0)
    assert int(storage.blocks.state_dict()["references"].sum()) == 40 * len(signature.columns)
    table.delete(keys)
    assert not storage.blocks.state_dict()["references"].any()


def test_items_side_by_side_may_not_go_beyond_their_block_or_the_storage():
    storage = make_storage(NUMBERED, 64, longest=2)
    table = Table("a", NUMBERED, sampler=Uniform(), remover=Fifo(), max_size=50, limiter=MinSize(1), storage=storage)
    size = storage.blocks.block_steps
    Stream(storage).append({"number": torch.arange(2 * size - 1)})
    assert len(table.insert(torch.arange(size - 1), 2, 1.0)) == size - 1
    for first, length in ((torch.arange(size), 2), (torch.arange(storage.steps - 1, storage.steps), 2)):
        with pytest.raises(UsageError, match="must lie in one block"):
            table.insert(first, length, 1.0)
    for length in (0, 3):
        with pytest.raises(UsageError, match="must lie in one block"):
            table.insert(torch.arange(3), length, 1.0)
    assert len(table.insert(torch.arange(size + 1), 1, 1.0)) == size + 1, "of one step each they may"


def test_rows_of_an_earlier_batch_are_written_over():
    table = numbered_table(sampler=Fifo(), max_times_sampled=1)
    add(table, [3, 4])
    first = table.sample(1)
    second = table.sample(1, out=first)
    assert second.rows is first.rows
    assert numbers_of(first) == [4]


def test_weights_are_those_of_the_paper():
    table = numbered_table(sampler=Prioritized(1.0))
    add(table, [0, 1], torch.tensor([1.0, 3.0]))
    batch = table.sample(50)
    wanted = [1.0 if number == 0 else 3**-0.5 for number in numbers_of(batch)]
    assert batch.weights(0.5).tolist() == pytest.approx(wanted)
    assert batch.weights(0.5).dtype == torch.float32


def test_one_priority_is_that_of_all_items():
    for priority in (0.5, torch.tensor(0.5), torch.tensor([0.5]), torch.full((3,), 0.5, dtype=torch.bfloat16)):
        table = numbered_table(sampler=Fifo())
        keys = add(table, [0, 1, 2], priority)
        assert table.sample(3, distinct=True).priorities.tolist() == [0.5] * 3
        assert table.update(keys, priority) == 3


@pytest.mark.parametrize("priority", [-1.0, math.nan, math.inf, torch.tensor([1.0, -0.5])])
def test_wrong_priorities_change_nothing(priority):
    table = numbered_table()
    keys = add(table, [0, 1])
    before = table.contents.items.records.clone()
    with pytest.raises(UsageError, match="0 or more, not"):
        table.update(keys, priority)
    with pytest.raises(UsageError, match="0 or more, not"):
        add(table, [2, 3], priority)
    assert torch.equal(table.contents.items.records, before)
    with pytest.raises(UsageError, match=r"priorities are \[3\], the items \[2\]"):
        table.update(keys, torch.ones(3))


def test_steps_that_nobody_holds_are_no_items():
    table = numbered_table(max_size=100)
    size = table.storage.blocks.block_steps
    for first, length in ((size - 1, 2), (-1, 1), (table.storage.steps, 1), (0, 0)):
        with pytest.raises(UsageError, match="must lie in one block"):
            table.insert(torch.tensor([first]), length, 1.0)
    with pytest.raises(UsageError, match="nobody holds"):
        table.insert(torch.tensor([5]), 1, 1.0)


def test_what_does_not_go_together_is_refused():
    with pytest.raises(UsageError, match="min_size 11 is above max_size 10"):
        numbered_table(limiter=MinSize(11))
    same = Uniform()
    with pytest.raises(UsageError, match="two objects"):
        numbered_table(sampler=same, remover=same)
    with pytest.raises(UsageError, match="other steps: number is missing"):
        numbered_table(storage=make_storage(MIXED, 10))


def test_a_full_storage_evicts_but_a_queue_waits():
    for limiter, evicts in ((MinSize(1), True), (Queue(10_000), False)):
        storage = make_storage(NUMBERED, 200)
        table = numbered_table(max_size=10_000, limiter=limiter, storage=storage, max_times_sampled=int(not evicts))
        stream = Stream(storage)
        for _ in range(storage.steps):
            add(table, [1], stream=stream)
        if evicts:
            add(table, [1], stream=stream)
            assert 0 < table.size <= storage.steps
        else:
            with pytest.raises(ReplayTimeoutError, match="blocks are not free"):
                stream.append({"number": torch.tensor([1])}, timeout_s=0.01)


def test_tables_of_one_storage_reference_the_same_steps():
    storage = make_storage(NUMBERED, 400)
    one, other = (numbered_table(storage=storage, sampler=Fifo()) for _ in range(2))
    places = Stream(storage).append({"number": torch.tensor([4, 5])})
    one.insert(places, 1, 1.0)
    other.insert(places[1:], 1, 1.0)
    assert (numbers_of(one.sample(1)), numbers_of(other.sample(1))) == ([4], [5])


def test_many_threads_see_only_whole_items():
    """Rows of 40 equal numbers: a sample of a row that is just written over would have two."""
    storage = make_storage(NUMBERED, 4000, longest=40)
    table = numbered_table(max_size=60, storage=storage)
    is_over, torn, count = threading.Event(), [], [0]

    def insert(holder):
        stream = Stream(storage, holder=holder)
        for number in range(holder * 1000, holder * 1000 + 250):
            places = stream.append({"number": torch.full((40,), number)})
            stream.end_episode()
            if places[-1] - places[0] == 39:
                table.insert(places[:1], 40, 1.0)

    def sample():
        while not is_over.is_set():
            batch = table.sample(8, timeout_s=60)
            numbers = batch.fields["number"]
            count[0] += 1
            torn.extend(numbers[numbers.min(1).values != numbers.max(1).values].tolist())

    writers = [threading.Thread(target=insert, args=(holder,)) for holder in range(2)]
    readers = [threading.Thread(target=sample) for _ in range(2)]
    for thread in (*writers, *readers):
        thread.start()
    for thread in writers:
        thread.join()
    is_over.set()
    for thread in readers:
        thread.join()
    assert torn == []
    assert count[0] > 0


@pytest.mark.parametrize("length", [2, 3])
def test_a_sample_of_unlike_lengths_has_zeros_past_the_shorter_item(length):
    table = numbered_table(storage=make_storage(NUMBERED, 100, longest=3))
    first = int(Stream(table.storage).append({"number": torch.arange(1, 7)})[0])
    table.insert(torch.tensor([first, first + 1]), torch.tensor([1, length]), 1.0)
    batch = table.sample(2, distinct=True)
    (lengths,) = batch.lengths.values()
    order = lengths.argsort()
    assert lengths[order].tolist() == [1, length]
    assert batch.fields["number"][order].tolist() == [[1] + [0] * (length - 1), list(range(2, 2 + length))]


def test_a_batch_of_other_sizes_is_not_written_over():
    table = numbered_table(sampler=Lifo(), storage=make_storage(NUMBERED, 100, longest=3))
    first = Stream(table.storage).append({"number": torch.arange(1, 9)})
    wanted, batch = {2: [[1, 2]], 3: [[3, 4, 5]], 1: [[6]]}, None
    for start, length in ((0, 2), (2, 3), (5, 1)):
        table.insert(first[start : start + 1], length, 1.0)
        batch = table.sample(1, out=batch)
        assert batch.fields["number"].tolist() == wanted[length]
    assert table.sample(2, out=batch).fields["number"].tolist() == [[6], [6]]


def test_a_batch_of_other_columns_is_not_written_over():
    table = Table("mixed", MIXED, sampler=Fifo(), remover=Lifo(), max_size=5, limiter=MinSize(1))
    table.insert(Stream(table.storage).append(mixed_steps(2)), 1, 1.0)
    whole = table.sample(1)
    assert list(table.sample(1, columns=("image",), out=whole).fields) == ["image"]
    assert set(table.sample(1, out=table.sample(1, columns=("image",))).fields) == set(whole.fields)


def test_nothing_is_inserted_where_there_is_nothing():
    table = numbered_table()
    assert add(table, [1]).shape == (1,)
    assert table.insert(torch.zeros(0, dtype=torch.int64), 1, 1.0).shape == (0,)
    table.storage.blocks.end_lease([])
    assert table.size == 1


def test_places_and_keys_may_be_of_any_integer_type():
    table = numbered_table(max_size=1000, sampler=Fifo())
    places = Stream(table.storage).append({"number": torch.arange(300)})
    keys = table.insert(places[200:201].to(torch.int32), torch.tensor([1], dtype=torch.int32), 1.0)
    assert numbers_of(table.sample(1)) == [200]
    assert table.update(keys.to(torch.int32), 2.0) == 0  # the high bits of a key are lost
