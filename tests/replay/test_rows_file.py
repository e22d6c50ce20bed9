import pytest
import torch
from safetensors.torch import load_file

from gmi_drl.replay import table_state
from gmi_drl.replay.checkpoint import restore, save
from gmi_drl.replay.limiters import MinSize
from gmi_drl.replay.rows_file import write_rows
from gmi_drl.replay.selectors import Fifo, Lifo
from gmi_drl.replay.storage import make_storage
from gmi_drl.replay.stream import Stream
from gmi_drl.replay.table import Table
from gmi_drl.replay.table_state import TableState
from tests.replay.signatures import MIXED, mixed_steps


def test_safetensors_reads_what_was_written(tmp_path):
    rows = {
        "a": torch.arange(12).view(3, 4),
        "none": torch.zeros(0, 2, dtype=torch.int64),
        "b": torch.ones(2, 1).long(),
    }
    write_rows(tmp_path / "rows", rows)
    read = load_file(tmp_path / "rows")
    assert read.keys() == rows.keys()
    assert all(torch.equal(read[name], rows[name]) for name in rows)


@pytest.mark.parametrize("codec", ["none", "zlib"])
def test_rows_of_a_table_are_never_copied_together(tmp_path, monkeypatch, codec):
    monkeypatch.setattr(table_state, "PIECE_BYTES", 1)

    def made():
        storage = make_storage(MIXED, 300, codec=codec)
        return Table("t", MIXED, sampler=Fifo(), remover=Lifo(), max_size=90, limiter=MinSize(1), storage=storage)

    table, read = made(), []
    table.insert(Stream(table.storage).append(mixed_steps(90)), 1, 1.0)
    read_blocks = table.storage.read_blocks
    monkeypatch.setattr(
        table.storage,
        "read_blocks",
        lambda blocks, columns=None: read.append(len(blocks)) or read_blocks(blocks, columns),
    )
    save(tmp_path / "a", TableState(table), 1)
    assert set(read) == {1}
    again = made()
    restore(tmp_path / "a", TableState(again))
    wanted, got = (each.sample(90, distinct=True).fields for each in (table, again))
    assert all(torch.equal(wanted[name], got[name]) for name in wanted)
