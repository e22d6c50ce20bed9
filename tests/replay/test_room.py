import pytest
import torch

from gmi_drl.errors import UsageError
from gmi_drl.replay.limiters import MinSize, ReplayTimeoutError, SampleToInsertRatio
from gmi_drl.replay.selectors import MaxHeap, MinHeap, Prioritized, Uniform
from gmi_drl.replay.storage import make_storage
from gmi_drl.replay.stream import Stream
from tests.replay.signatures import NUMBERED
from tests.replay.tables import add, numbered_table, numbers_of


def fill(table, count, stream=None, at_once=50, sizes=None):
    """Insert items with random priorities."""
    stream, chance = stream or Stream(table.storage), torch.Generator().manual_seed(1)
    for first in range(0, count, at_once):
        add(table, range(first, first + at_once), torch.rand(at_once, generator=chance), stream)
        if sizes is not None:
            sizes.append(table.size)
    return stream


def test_a_table_keeps_its_items_while_blocks_wait_for_a_reader():
    table = numbered_table(max_size=1000)
    stream = fill(table, 3000)
    table.storage.blocks.begin_reading()
    with pytest.raises(ReplayTimeoutError, match="are still read, 0 are free"):
        for _ in range(100):
            table.insert(stream.append({"number": torch.arange(50)}, timeout_s=0.02), 1, 1.0)
    assert table.size == 1000


@pytest.mark.parametrize("remover", [Uniform, MinHeap, MaxHeap, Prioritized])
@pytest.mark.parametrize("limiter", [lambda: MinSize(1), lambda: SampleToInsertRatio(1.0, 10, 1e6)])
def test_a_remover_that_does_not_go_by_age_keeps_most_of_the_items(remover, limiter):
    table, sizes = numbered_table(max_size=1000, remover=remover(), limiter=limiter()), []
    fill(table, 6000, sizes=sizes)
    assert min(sizes[40:]) > 600


def test_tables_of_one_storage_share_the_cost():
    storage = make_storage(NUMBERED, 1200)
    first, second = (numbered_table(max_size=1000, storage=storage) for _ in range(2))
    stream = Stream(storage)
    for number in range(80):
        places = stream.append({"number": torch.arange(50)})
        first.insert(places, 1, 1.0)
        if number % 2:
            second.insert(places, 1, 1.0)
    assert first.size > 900
    assert second.size > 400


def test_the_oldest_items_go_where_the_remover_says_so():
    storage = make_storage(NUMBERED, 160)
    table = numbered_table(max_size=1000, storage=storage)
    stream = Stream(storage)
    for number in range(300):
        add(table, [number], stream=stream)
        if number % 10 == 5:
            table.delete(table.contents.items.records[:1, 0])
    kept = sorted(numbers_of(table.sample(table.size, distinct=True)))
    assert kept[0] >= 300 - storage.steps
    assert table.size > storage.steps // 2


def test_items_that_somebody_else_needs_are_not_evicted_for_nothing():
    storage = make_storage(NUMBERED, 160)
    table = numbered_table(max_size=1000, storage=storage)
    stream = fill(table, storage.steps, at_once=10)
    storage.blocks.hold(torch.arange(storage.blocks.count))
    with pytest.raises(ReplayTimeoutError):
        stream.append({"number": torch.arange(10)}, timeout_s=0.02)
    assert table.size == storage.steps


def test_more_streams_than_blocks_are_refused():
    table = numbered_table(max_size=100)
    streams = [Stream(table.storage, holder=number) for number in range(table.storage.blocks.count)]
    with pytest.raises(UsageError, match="18 streams write to 17 blocks"):
        Stream(table.storage, holder=99)
    streams[0].close()
    Stream(table.storage, holder=99)


def test_a_table_without_items_has_none_to_evict():
    table = numbered_table(remover=MinHeap())
    other = Stream(table.storage)
    other.append({"number": torch.arange(table.storage.steps)})
    with pytest.raises(ReplayTimeoutError):
        Stream(table.storage, holder=1).append({"number": torch.arange(1)}, timeout_s=0.01)
