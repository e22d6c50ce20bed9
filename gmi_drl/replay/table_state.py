"""What a checkpoint has of a table: its items and counts, the blocks that they need, and its streams."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from gmi_drl.errors import UsageError
from gmi_drl.replay.items import KEY, STRETCHES, first_steps
from gmi_drl.replay.stream import Stream
from gmi_drl.replay.table import Table


class TableState:
    """A table, its storage and its streams, as a source of checkpoints.

    Args:
        table: The only one of its storage.
        streams: Those that go on after a restore, with different holders; other open blocks are given back.

    Raises:
        UsageError: if other tables have the same storage.
    """

    def __init__(self, table: Table, streams: Sequence[Stream] = ()) -> None:
        if table.storage.tables != 1:
            shared = f"{table.storage.tables} tables share its storage"
            raise UsageError(f"table {table.name}: {shared}: only a table with one of its own has checkpoints")
        self._table, self._streams = table, tuple(streams)

    def facts(self) -> dict[str, Any]:
        """What must be the same at a restore."""
        contents, storage = self._table.contents, self._table.storage
        return {
            "kind": "table",
            "name": self._table.name,
            "signature": storage.signature.to_json(),
            "max_size": contents.max_size,
            "max_times_sampled": contents.max_times_sampled,
            "sampler": type(contents.sampler).__name__,
            "remover": type(contents.remover).__name__,
            "steps": storage.steps,
            "block_steps": storage.blocks.block_steps,
            "streams": len(self._streams),
        }

    @contextmanager
    def snapshot(self) -> Iterator[dict[str, Any]]:
        """A state of one moment, nested dicts of tensors and numbers, with rows that stay for the time of the block.

        Items and counts are copied under the lock; inserts and samples go on meanwhile.
        """
        storage = self._table.storage
        storage.flush()
        with self._table.lock:
            state = self._table.contents.state_dict()
            ticket = storage.blocks.begin_reading()
            blocks = self._needed(state["items"]["records"], storage.blocks.state_dict())
            streams = {str(number): stream.state_dict() for number, stream in enumerate(self._streams)}
        try:
            used = (blocks["references"] > 0) | (blocks["holders"] >= 0)
            rows = storage.read_blocks(used.nonzero().flatten())
            yield {"contents": state, "blocks": blocks, "streams": streams, "rows": rows}
        finally:
            storage.blocks.end_reading(ticket)

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Take over a snapshot of a table with the same facts. Nothing else may use the table meanwhile."""
        storage = self._table.storage
        with self._table.lock:
            self._table.contents.load_state_dict(state["contents"])
            storage.blocks.load_state_dict(state["blocks"])
            used = (state["blocks"]["references"] > 0) | (state["blocks"]["holders"] >= 0)
            storage.load_blocks(used.nonzero().flatten(), state["rows"])
            for number, stream in enumerate(self._streams):
                stream.load_state_dict(state["streams"][str(number)])
            self._table.lock.notify_all()

    def _needed(self, records: Tensor, blocks: dict[str, Tensor]) -> dict[str, Tensor]:
        """The state of the blocks if only these items and our streams need them: others are being released just now."""
        there = records[records[:, KEY] > 0][:, STRETCHES:]
        of_items = self._table.storage.blocks.block_of(first_steps(there)).flatten()
        references = torch.bincount(of_items, minlength=len(blocks["references"]))
        ours = torch.tensor([stream.state_dict()["block"] for stream in self._streams], dtype=torch.int64)
        ours = ours[ours >= 0]
        holders = torch.full_like(blocks["holders"], -1)
        holders[ours] = blocks["holders"][ours]
        is_free = (references == 0) & (holders < 0)
        was_free = torch.zeros_like(is_free)
        was_free[blocks["free"]] = True
        free = torch.cat((blocks["free"], (is_free & ~was_free).nonzero().flatten()))
        return {"references": references, "holders": holders, "free": free}
