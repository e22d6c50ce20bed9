import pytest
import torch

from gmi_drl.errors import UsageError
from gmi_drl.replay.extensions import Diffusion, Extension, Statistics
from gmi_drl.replay.selectors import Fifo
from gmi_drl.replay.stream import Stream
from tests.replay.tables import add, numbered_table


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
