"""The stream of cells of a writer: arrays and descriptions of items, many of which are sent together."""

import time
from collections.abc import Sequence
from contextlib import suppress

import numpy as np
import torch

from gmi_drl.errors import GmiError
from gmi_drl.replay.client.writer import AT_ONCE_ITEMS, AT_ONCE_S, Writer
from gmi_drl.replay.reverb.columns import Cell, TrajectoryColumn
from gmi_drl.replay.reverb.layout import CELL_BYTES, Column, Run, bound, described
from gmi_drl.replay.words import LONGEST_WAIT_S

MOST_IN_FLIGHT = 65_536
MOST_BYTES = 2**20
"""That are not sent yet."""

LOOK_S = 0.001
"""Seconds after which it is looked again whether all was answered."""

_SLACK = 3 * CELL_BYTES


class CellStream:
    """Writes items to a server, each array once as long as the open block has it. One thread may use it.

    All of an item lies in one block. Where it does not fit into what is left of the open block, the block is filled up,
    and arrays that later items use are written to the next one again.

    Args:
        writer: Of ours, for nobody else.

    Attributes:
        most_in_flight: Items that are sent and not acknowledged, at most.
        episode: Number of the episode, in 63 bits, unlike that of any other writer.
    """

    def __init__(self, writer: Writer) -> None:
        self._writer, self._block_bytes = writer, writer.block_steps * CELL_BYTES
        self.most_in_flight, self.episode = MOST_IN_FLIGHT, 0
        self._data = bytearray()
        self._begin = writer.step * CELL_BYTES  # the place of the first byte of `_data`
        self._block = self._begin  # arrays before this place are in blocks that are left
        self._items: dict[tuple[str, int], list[tuple[int, int, float]]] = {}
        self._count, self._since = 0, time.monotonic()

    @property
    def pending(self) -> int:
        """Items that are not acknowledged, or not even sent."""
        return self._count + self._writer.in_flight

    def create_item(self, table: str, priority: float, columns: Sequence[TrajectoryColumn]) -> None:
        """Make an item.

        Raises:
            ValueError: if it has more bytes than a block.
        """
        bytes_of_description = bound([(column.cells[0].array.ndim, len(column.cells)) for column in columns])
        self._make_room(columns, bytes_of_description + _SLACK)
        block = self._block
        for column in columns:
            for cell in column.cells:
                if cell.place < block:
                    self._write(cell)
        places = [[cell.place for cell in column.cells] for column in columns]
        first = min(map(min, places))
        first -= first % CELL_BYTES
        end = -(-(self._end + bytes_of_description) // CELL_BYTES) * CELL_BYTES
        text = described(tuple([_column(one, at, end) for one, at in zip(columns, places, strict=True)]))
        self._data += bytes(end - len(text) - self._end)
        self._data += text
        stretch = first // CELL_BYTES, (end - first) // CELL_BYTES, priority
        self._items.setdefault((table, self.episode), []).append(stretch)
        self._count += 1
        self._send_if_due()

    def send(self) -> None:
        """Send what is there."""
        if self._writer.in_flight > (left := max(0, self.most_in_flight - self._count)):
            self._writer.flush(LONGEST_WAIT_S, left)
        if self._data:
            self._data += bytes(-len(self._data) % CELL_BYTES)
            cells = torch.frombuffer(self._data, dtype=torch.int64).view(-1, CELL_BYTES // 8)
            self._writer.append({"cell": cells})
            self._begin, self._data = self._end, bytearray()
        while self._items:
            (table, episode), stretches = next(iter(self._items.items()))
            first, length, priorities = zip(*stretches, strict=True)
            numbers = np.array(first), np.array(length), np.array(priorities)
            self._writer.create_items(table, *numbers, version=episode)
            del self._items[table, episode]
            self._count -= len(stretches)
        self._writer.send()
        self._since = time.monotonic()

    def flush(self, timeout_s: float, left: int = 0) -> None:
        """Wait until all items are in but `left`. What may be left is sent when it is due.

        Raises:
            ReplayTimeoutError: if they are not in time.
            UsageError: if the server has refused some.
        """
        if left and self.pending > left:
            self._writer.send()  # reads what was answered
        if self.pending > left:
            self.send()
            self._writer.flush(timeout_s, left)

    def rest(self) -> bool:
        """Forget what was not sent, for another writer to go on. Returns whether one can; else the connection ends.

        It ends if items are not acknowledged: those may be in, or come in, or not. It ends if some were refused: that
        is no error of the next writer. And it ends if the server has ended.
        """
        self.most_in_flight = MOST_IN_FLIGHT
        self._items, self._count, self._data = {}, 0, bytearray()
        with suppress(GmiError):
            if self._writer.is_settled:
                return True
        self.close()
        return False

    def close(self) -> None:
        """End the connection."""
        with suppress(GmiError):
            self._writer.close(0.0)

    @property
    def _end(self) -> int:
        return self._begin + len(self._data)

    def _write(self, cell: Cell) -> None:
        array, data = cell.array, self._data
        if behind := (self._begin + len(data)) % (array.itemsize or 1):
            data += bytes(array.itemsize - behind)
        cell.place = self._begin + len(data)
        data += array.tobytes()

    def _make_room(self, columns: Sequence[TrajectoryColumn], more: int) -> None:
        """Go on in the next block, unless an item fits into the open one."""
        arrays, block = [cell for column in columns for cell in column.cells], self._block
        new = sum([cell.array.nbytes + cell.array.itemsize for cell in arrays if cell.place < block])
        if self._end - self._block + new + more <= self._block_bytes:
            return
        whole = sum(cell.array.nbytes + cell.array.itemsize for cell in {id(cell): cell for cell in arrays}.values())
        if whole + more > self._block_bytes:
            text = f"an item has {whole + more} bytes, up to {self._block_bytes} are allowed"
            raise ValueError(f"{text}: give the server more, Server(..., item_bytes=...)")
        self.send()
        if room := self._writer.room:
            self._writer.append({"cell": torch.zeros(room, CELL_BYTES // 8, dtype=torch.int64)})
        try:
            self._writer.end_episode()
        finally:  # the block is full, also if the server has refused an item
            self._begin = self._block = self._writer.step * CELL_BYTES

    def _send_if_due(self) -> None:
        """Send if there is much, or the last message is answered: so messages are larger where the server is slow."""
        most = min(AT_ONCE_ITEMS, max(1, self.most_in_flight // 2))
        if self._count >= most or len(self._data) >= MOST_BYTES:
            self.send()
        elif time.monotonic() - self._since > AT_ONCE_S:
            self._writer.send()  # reads what was answered
            if not self._writer.in_flight:
                self.send()
            else:
                self._since += LOOK_S


def _column(column: TrajectoryColumn, places: Sequence[int], end: int) -> Column:
    """How a column is described whose arrays are at these places, of an item that ends there."""
    cell = column.cells[0]
    if len(places) == 1:
        return Column(cell.array.dtype, cell.array.shape, column.is_squeezed, (Run(end - places[0], 0, 1),))
    runs, at = [], 0
    while at < len(places):
        count, stride = 1, 0
        if at + 1 < len(places):
            stride = places[at + 1] - places[at]
            while at + count < len(places) and places[at + count] - places[at + count - 1] == stride:
                count += 1
        runs.append(Run(end - places[at], stride, count))
        at += count
    return Column(cell.array.dtype, cell.array.shape, column.is_squeezed, tuple(runs))
