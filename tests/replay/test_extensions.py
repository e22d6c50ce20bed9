import pytest
import torch

from gmi_drl.errors import UsageError
from gmi_drl.replay.extensions import Diffusion, Extension, Statistics
from gmi_drl.replay.items import priorities_of
from gmi_drl.replay.limiters import SampleToInsertRatio
from gmi_drl.replay.selectors import Fifo, Uniform
from gmi_drl.replay.storage import make_storage
from gmi_drl.replay.stream import Stream
from tests.replay.signatures import NUMBERED
from tests.replay.tables import add, numbered_table, numbers_of


class Log(Extension):
    """Notes what it is told."""

    def attach(self, contents):
        super().attach(contents)
        self.told = []
        for name in ("inserted", "sampled", "updated", "deleted"):
            setattr(self, name, lambda slots, name=name: self.told.append((name, slots.tolist())))
        self.reset = lambda: self.told.append("reset")


def test_extensions_are_told_of_everything_in_order():
    log = Log()
    table = numbered_table(max_size=2, sampler=Fifo(), extensions=(log,))
    keys = add(table, range(3))
    table.sample(2)
    table.update(keys, 2.0)
    table.delete(keys[1:2])
    table.reset()
    assert log.told == [
        ("inserted", [0, 1]),
        ("inserted", [2, 3][:1]),
        ("deleted", [0]),
        ("sampled", [1, 1]),
        ("updated", [1, 2]),
        ("deleted", [1]),
        ("deleted", [2]),
        "reset",
    ]


def test_statistics_have_rates_and_ages():
    table = numbered_table(sampler=Fifo(), extensions=(Statistics(),))
    add(table, range(4))
    table.sample(2)
    told = table.info()["Statistics"]
    assert told["age_in_inserts"] == 4
    assert told["samples_per_s"] == pytest.approx(told["inserts_per_s"] / 2)
    assert told["least_bytes_per_s"] == pytest.approx(8 * told["samples_per_s"])
    assert table.info()["Statistics"]["inserts_per_s"] == 0


def test_priorities_reach_neighbours_in_a_stream():
    table = numbered_table(extensions=(Diffusion(2, 0.5),))
    stream = Stream(table.storage)
    keys = add(table, range(6), torch.tensor([1.0, 1, 1, 1, 9, 0]), stream=stream)
    table.update(keys[2:3], 8.0)
    assert priorities(table, keys) == [2, 4, 8, 4, 9, 0]
    table.delete(keys[1:2])
    table.update(keys[[0, 3]], torch.tensor([20.0, 12.0]))
    assert priorities(table, keys[[0, 2, 3, 4, 5]]) == [20, 8, 12, 9, 3]


def priorities(table, keys):
    items = table.contents.items
    return items.records[items.find(keys), 2].contiguous().view(torch.float64).tolist()


def test_wrong_numbers_are_refused():
    with pytest.raises(UsageError, match="not 0 and"):
        Diffusion(0, 0.5)
    with pytest.raises(UsageError, match="not 1 and 2"):
        Diffusion(1, 2)


class Refusing(Extension):
    """Raises when it is told of items with a priority of 5."""

    def inserted(self, slots):
        if bool((priorities_of(self.contents.items.records[slots]) == 5).any()):
            raise RuntimeError("no items of priority 5")


@pytest.mark.parametrize("max_times_sampled", [0, 2])
def test_what_an_extension_refuses_is_not_in_and_its_blocks_are_free(max_times_sampled):
    log = Log()
    table = numbered_table(max_size=3, extensions=(log, Refusing()), max_times_sampled=max_times_sampled)
    keys, blocks = add(table, range(2)), table.storage.blocks
    free, stream = blocks.free, Stream(table.storage)
    with pytest.raises(RuntimeError, match="priority 5"):
        add(table, range(2, 4), 5.0, stream=stream)
    stream.close()
    assert log.told[-2:] == [("inserted", [2, 3]), ("deleted", [2, 3])]
    assert blocks.free == free and table.info()["inserts"] == table.size == 2 and table.info()["deletes"] == 0
    assert table.contents.samples_allowed(100) == (2 * max_times_sampled or 100)
    assert table.update(keys, 2.0) == 2 and set(numbers_of(table.sample(3))) <= {0, 1}
    add(table, range(4, 7))
    assert table.size == 3


def test_what_an_extension_that_raises_at_an_eviction_refused_is_not_in():
    table = numbered_table(max_size=2, extensions=(extension := Extension(),), storage=make_storage(NUMBERED, 64))
    add(table, range(2))
    extension.deleted = lambda slots: 1 / 0
    with pytest.raises(ZeroDivisionError):
        add(table, [2])
    del extension.deleted
    assert sorted(numbers_of(table.sample(2, distinct=True))) == [0, 1] and table.info()["inserts"] == 2


@pytest.mark.parametrize("what", ["sampled", "deleted"])
@pytest.mark.parametrize("times", [1, 2])
@pytest.mark.parametrize("sampler", [Uniform, Fifo])
def test_a_table_goes_on_when_an_extension_has_raised_in_a_sample(sampler, times, what):
    failing, log = Extension(), Log()
    limiter = SampleToInsertRatio(times, 1, (0.0, 2.0 * times))
    options = {"sampler": sampler(), "limiter": limiter, "max_times_sampled": times, "extensions": (failing, log)}
    table = numbered_table(**options)
    add(table, [0])
    setattr(failing, what, lambda slots: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        table.sample(times)
    delattr(failing, what)
    assert log.told[1:] == [("sampled", [0] * times), ("deleted", [0])]
    assert table.size == 0 and table.storage.blocks.free == table.storage.blocks.count
    assert table.contents.samples_allowed(times) == 0
    add(table, [1, 2])
    assert set(numbers_of(table.sample(2 * times))) == {1, 2} and table.size == 0
