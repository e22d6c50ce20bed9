"""How items lie in cells: descriptions, and what is no item."""

import struct

import numpy as np
import pytest
import torch

from gmi_drl.errors import MachineError, UsageError
from gmi_drl.hardware import host_memory
from gmi_drl.replay import Client, reverb
from gmi_drl.replay.reverb.layout import CELL_BYTES, Column, Run, arrays_of, bound, columns_of, described
from gmi_drl.replay.reverb.nest import flatten, map_structure, unflatten_as, union
from gmi_drl.replay.reverb.storage import CellStorage
from tests.replay.reverb.reverb_servers import served, uniform


def item(columns, size=512):
    text = described(tuple(columns))
    return np.frombuffer(bytes(range(256)) * (size // 256) + text, np.uint8)[-size:][None]


def test_a_description_is_read_as_it_was_written_and_no_longer_than_its_bound():
    columns = (
        Column(np.dtype("f4"), (2, 3), False, (Run(400, 24, 3), Run(80, 24, 1))),
        Column(np.dtype("U5"), (), True, (Run(200, 0, 1),)),
        Column(np.dtype("?"), (7,), False, (Run(100, -7, 2),)),
    )
    text = described(tuple(columns))
    assert columns_of(memoryview(b"steps" + text)) == columns
    assert len(text) <= bound([(2, 4), (0, 1), (1, 2)])


@pytest.mark.parametrize(
    "column",
    [
        Column(np.dtype("u1"), (8,), False, (Run(600, 8, 1),)),
        Column(np.dtype("u1"), (8,), False, (Run(-8, 8, 1),)),
        Column(np.dtype("u1"), (8,), False, (Run(100, 8, 1000),)),
        Column(np.dtype("u1"), (8,), False, (Run(100, -300, 3),)),
        Column(np.dtype("u1"), (2**20,), False, (Run(100, 8, 1),)),
        Column(np.dtype("u1"), (-8,), False, (Run(100, 8, 1),)),
        Column(np.dtype("u1"), (8,), False, (Run(100, 8, -1),)),
    ],
)
def test_arrays_outside_of_an_item_are_refused(column):
    with pytest.raises((ValueError, TypeError)):
        arrays_of(item([column]), [column])


@pytest.mark.parametrize(
    "numbers", [[0], [-5], [2**30], [1, ord("O") | 8 << 9, 0, 0, 5], [3, 4], [1, ord("f") | 4 << 9, 99, 0, 5]]
)
def test_what_is_no_description_is_refused_in_words(numbers):
    text = struct.pack(f"<{len(numbers)}i", *numbers)
    with pytest.raises(ValueError, match=r"description|unknown type"):
        columns_of(memoryview(bytes(64) + text))


def test_cells_that_another_interface_has_written_are_told():
    with served(uniform()) as (server, client), Client(f"localhost:{server.port}") as ours:
        ours.insert({"cell": torch.zeros(1, CELL_BYTES // 8, dtype=torch.int64)}, {"table": 1.0})
        with pytest.raises(ValueError, match="not written by Reverb's interface"):
            next(client.sample("table"))


def test_nests_are_those_of_dm_tree():
    nest = {"b": [1, (2, None)], "a": reverb.SampleInfo(3, 4, 5, 6, 7)}
    assert flatten(nest) == [3, 4, 5, 6, 7, 1, 2, None]
    assert unflatten_as(nest, flatten(nest)) == nest and [*unflatten_as(nest, range(8))] == ["b", "a"]
    assert map_structure(lambda one, other: one + other, [1, {"a": 2}], [3, {"a": 4}]) == [4, {"a": 6}]
    assert union({"a": None, "c": [None]}, {"b": None, "c": [None, None]}) == {"a": None, "c": [None, None], "b": None}
    for leaves in (range(7), range(9)):
        with pytest.raises(ValueError, match="8 leaves"):
            unflatten_as(nest, leaves)
    with pytest.raises(ValueError, match="structures differ"):
        map_structure(max, [1], [1, 2])


def test_memory_is_checked_and_blocks_that_became_free_last_are_used_first(monkeypatch):
    storage = CellStorage(2**20, 2**17)
    assert storage.blocks.count == 8 and storage.blocks.block_steps == storage.longest == 2048
    first = storage.blocks.lease(1, 0)
    storage.blocks.end_lease(first)
    assert storage.blocks.lease(1, 0) == first
    with pytest.raises(UsageError, match="at most half"):
        CellStorage(2**20, 2**31)
    monkeypatch.setattr(host_memory, "available_bytes", lambda: 2**20)
    with pytest.raises(MachineError, match="memory_bytes"):
        CellStorage(2**22, 2**17)
