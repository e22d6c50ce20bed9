"""Tables for the tests of replay."""

import torch

from gmi_drl.replay.limiters import MinSize
from gmi_drl.replay.selectors import Fifo, Uniform
from gmi_drl.replay.stream import Stream
from gmi_drl.replay.table import Table
from tests.replay.signatures import NUMBERED


def numbered_table(max_size=10, **options) -> Table:
    """A table of steps that have numbers; uniform sampler, Fifo remover and MinSize(1), unless told otherwise."""
    options = {"sampler": Uniform(), "remover": Fifo(), "limiter": MinSize(1)} | options
    return Table("numbers", NUMBERED, max_size=max_size, **options)


def add(table: Table, numbers, priority=1.0, stream=None, **options) -> torch.Tensor:
    """Insert items of one step each that have these numbers, by a stream of their own or this. Returns their keys."""
    used = stream or Stream(table.storage)
    keys = table.insert(used.append({"number": torch.as_tensor(list(numbers))}), 1, priority, **options)
    if stream is None:
        used.close()
    return keys


def numbers_of(batch) -> list[int]:
    """The numbers of a batch of single steps."""
    return batch.fields["number"][:, 0].tolist()
