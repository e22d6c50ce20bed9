"""What tables refuse of priorities at the ends of numbers, and what a closed table leaves behind."""

import pytest
import torch

from gmi_drl.errors import UsageError
from gmi_drl.replay.selectors import Fifo, Prioritized
from gmi_drl.replay.storage import make_storage
from gmi_drl.replay.table_state import TableState
from tests.replay.signatures import NUMBERED
from tests.replay.tables import add, numbered_table


def test_a_closed_table_leaves_its_storage():
    storage = make_storage(NUMBERED, 1200)
    tables = [numbered_table(max_size=1000, storage=storage) for _ in range(2)]
    for table in tables:
        add(table, range(300))
    for _ in range(2):
        tables[0].close()
    assert (tables[0].size, tables[1].size) == (0, 300) and storage.blocks.tables == tables[1:]
    TableState(tables[1])
    with pytest.raises(UsageError, match="table numbers is closed"):
        TableState(tables[0])
    tables[1].close()
    assert storage.blocks.free == storage.blocks.count


@pytest.mark.parametrize("has_power", ["sampler", "remover"])
def test_priorities_whose_power_is_no_number_change_nothing(has_power):
    table = numbered_table(**{"sampler": Fifo(), "remover": Fifo(), has_power: Prioritized(2.0)})
    keys = add(table, [0, 1], 1e145)
    with pytest.raises(UsageError, match=r"must be 1e\+145 at most, not 1e\+200"):
        table.update(keys, torch.tensor([1.0, 1e200], dtype=torch.float64))
    with pytest.raises(UsageError, match=r"must be 1e\+145 at most, not 1e\+200"):
        add(table, [2, 3], 1e200)
    batch = table.sample(20)
    assert batch.priorities.tolist() == [1e145] * 20 and float(batch.weights(0.5).min()) == 1.0
