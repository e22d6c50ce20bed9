"""What a checkpoint has of tables: their items and counts, the blocks that they need, and streams."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import Tensor

from gmi_drl.errors import UsageError
from gmi_drl.replay.items import KEY, STRETCHES, first_steps
from gmi_drl.replay.rows_file import PIECE_BYTES, RowsInPieces
from gmi_drl.replay.storage import Storage
from gmi_drl.replay.stream import Stream
from gmi_drl.replay.table import Table


class TableState:
    """All tables of a storage, and streams to it, as a source of checkpoints.

    Args:
        tables: All of one storage.
        streams: Those that go on after a restore, with different holders; other open blocks are given back.

    Raises:
        UsageError: if there are other tables of the same storage, tables of another one, or closed ones.
    """

    def __init__(self, *tables: Table, streams: Sequence[Stream] = ()) -> None:
        names, storage = ", ".join(table.name for table in tables), tables[0].storage
        if any(table.storage is not storage for table in tables):
            raise UsageError(f"tables {names}: their storages differ, but a checkpoint has the tables of one storage")
        if closed := [table.name for table in tables if table.is_closed]:
            raise UsageError(f"table {', '.join(closed)} is closed, a checkpoint would have none of its items")
        if storage.tables != len(tables):
            raise UsageError(f"table {names}: {storage.tables} tables share its storage, name them all")
        self._tables, self._storage, self._streams = tables, storage, tuple(streams)

    def facts(self) -> dict[str, Any]:
        """What must be the same at a restore."""
        facts: dict[str, Any] = {
            "kind": "table",
            "signature": self._storage.signature.to_json(),
            "steps": self._storage.steps,
            "block_steps": self._storage.blocks.block_steps,
            "streams": len(self._streams),
        }
        for number, table in enumerate(self._tables):
            contents = table.contents
            facts |= {
                f"{number}.name": table.name,
                f"{number}.max_size": contents.max_size,
                f"{number}.max_times_sampled": contents.max_times_sampled,
                f"{number}.sampler": str(contents.sampler),
                f"{number}.remover": str(contents.remover),
            }
        return facts

    @contextmanager
    def snapshot(self) -> Iterator[dict[str, Any]]:
        """A state of one moment, nested dicts of tensors and numbers, with rows that stay for the time of the block.

        Items and counts are copied under the locks; inserts and samples go on meanwhile. Rows are copied when they are
        read.
        """
        storage = self._storage
        with ExitStack() as until_read:
            with ExitStack() as locks:
                for table in self._tables:
                    locks.enter_context(table.lock)
                states = {str(number): table.contents.state_dict() for number, table in enumerate(self._tables)}
                until_read.callback(storage.blocks.end_reading, storage.blocks.begin_reading())
                records = torch.cat([state["items"]["records"] for state in states.values()])
                streams = {str(number): stream.state_dict() for number, stream in enumerate(self._streams)}
                storage.flush()  # what was written before an item or the place of a stream was read above
                blocks = self._needed(records, streams, storage.blocks.state_dict())
            yield {"contents": states, "blocks": blocks, "streams": streams, "rows": _Rows(storage, _used(blocks))}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take over a snapshot of tables with the same facts. Nothing else may use them meanwhile."""
        with ExitStack() as locks:
            for number, table in enumerate(self._tables):
                locks.enter_context(table.lock)
                table.contents.load_state_dict(state["contents"][str(number)])
            self._storage.blocks.load_state_dict(state["blocks"])
            self._storage.load_blocks(_used(state["blocks"]), state["rows"])
            for number, stream in enumerate(self._streams):
                stream.load_state_dict(state["streams"][str(number)])
            for table in self._tables:
                table.lock.notify_all()

    def _needed(
        self, records: Tensor, streams: Mapping[str, Mapping[str, int]], blocks: Mapping[str, Tensor]
    ) -> dict[str, Tensor]:
        """The state of the blocks if only these items and our streams need them: others are being released just now.

        Streams may have moved on since their state was read, to blocks that count as free here.
        """
        there = records[records[:, KEY] > 0][:, STRETCHES:]
        of_items = self._storage.blocks.block_of(first_steps(there)).flatten()
        references = torch.bincount(of_items, minlength=len(blocks["references"]))
        holders = torch.full_like(blocks["holders"], -1)
        for stream in streams.values():
            if stream["block"] >= 0:
                holders[stream["block"]] = stream["holder"]
        is_free = (references == 0) & (holders < 0)
        was_free = torch.zeros_like(is_free)
        was_free[blocks["free"]] = True
        free = torch.cat((blocks["free"][is_free[blocks["free"]]], (is_free & ~was_free).nonzero().flatten()))
        return {"references": references, "holders": holders, "free": free, "opened": blocks["opened"]}


class _Rows(RowsInPieces):
    """The rows of blocks by column, copied when they are read."""

    def __init__(self, storage: Storage, blocks: Tensor) -> None:
        self._storage, self._blocks = storage, blocks

    def shape(self, column: str) -> tuple[int, int]:
        storage = self._storage
        return len(self._blocks) * storage.blocks.block_steps, storage.signature.row_bytes(column) // 8

    def pieces(self, column: str) -> Iterator[Tensor]:
        storage = self._storage
        at_once = max(1, PIECE_BYTES // (storage.blocks.block_steps * storage.signature.row_bytes(column)))
        for first in range(0, len(self._blocks), at_once):
            yield storage.read_blocks(self._blocks[first : first + at_once], (column,))[column]

    def __getitem__(self, column: str) -> Tensor:
        return self._storage.read_blocks(self._blocks, (column,))[column]

    def __iter__(self) -> Iterator[str]:
        return iter(self._storage.signature.columns)

    def __len__(self) -> int:
        return len(self._storage.signature.columns)


def _used(blocks: Mapping[str, Tensor]) -> Tensor:
    return ((blocks["references"] > 0) | (blocks["holders"] >= 0)).nonzero().flatten()
