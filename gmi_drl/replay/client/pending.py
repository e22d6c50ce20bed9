"""What a writer has not sent yet, and what it has sent and is not acknowledged."""

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from gmi_drl.errors import UsageError
from gmi_drl.replay.indices import Integers
from gmi_drl.replay.words import (
    ACK,
    ERROR,
    ITEMS_AT_ONCE,
    LEASED,
    MESSAGE_BYTES,
    Items,
    Lease,
    Number,
    WordError,
    from_json,
    read,
    write,
)
from gmi_drl.units import counted

Stretches = tuple[Integers, Integers, NDArray[np.float64]]
"""First rows `[n, columns]`, lengths `[n, columns]` and priorities `[n]`."""


def as_integers(value: int | Tensor | Integers) -> Integers:
    """A number, numbers `[n]` or `[n, columns]` as int64 `[n, columns]`."""
    numbers: Integers = np.asarray(value, dtype=np.int64)
    return numbers if numbers.ndim == 2 else numbers.reshape(-1, 1)


class PendingItems:
    """Items that are still to be sent, with their rows as the server counts them.

    Args:
        block_steps: Rows of a block.

    Attributes:
        count: Items.
        first_step: The oldest step that an item may have.
    """

    def __init__(self, block_steps: int) -> None:
        self.count = self.first_step = 0
        self._block_steps = block_steps
        self._opened = 0
        self._bases: list[int] = []  # of each held block, the step of its row 0
        self._begins: list[int] = []  # the first step that was written to it
        self._pending: dict[tuple[int, int, int], list[Stretches]] = {}

    @property
    def has_full_blocks(self) -> bool:
        """Whether the server holds blocks for items of the last steps."""
        return len(self._bases) > 1

    def open_block(self, base: int, step: int) -> None:
        """The next step goes to a new block, whose row 0 is the step `base`."""
        self._bases.append(base)
        self._begins.append(step)
        self._opened += 1
        self.first_step = self._bases[0]

    def forget_full_blocks(self) -> None:
        """Items have steps of the open block only, from now on."""
        self._bases, self._begins = self._bases[-1:], self._begins[-1:]
        self.first_step = self._bases[0]

    def add(
        self,
        table: int,
        first: Integers,
        length: int | Integers,
        priority: float | Tensor | NDArray[np.float64],
        version: int,
    ) -> None:
        """Note items `[n, columns]`. Each lies in the block of its last step. The caller may change its numbers then.

        Raises:
            UsageError: if there are as many priorities as neither items nor 1.
        """
        if not len(first):
            return
        if self.has_full_blocks and int(first.min()) < self._begins[-1]:
            held = np.searchsorted(self._begins, first + length - 1, side="right") - 1
            held = np.maximum(held, 0)
            number = self._opened - len(self._bases) + held
            rows = number * self._block_steps + first - np.array(self._bases)[held]
        else:
            rows = first + ((self._opened - 1) * self._block_steps - self._bases[-1])
        lengths = np.full(first.shape, length) if isinstance(length, int) else length.copy()
        priorities = np.asarray(priority, dtype=np.float64).reshape(-1).copy()
        if len(priorities) != len(first):
            if len(priorities) != 1:
                raise UsageError(
                    f"{len(priorities)} priorities for {counted(len(first), 'item')}: give one, or each its"
                )
            priorities = np.full(len(first), priorities)
        key = table, version, first.shape[1]
        self._pending.setdefault(key, []).append((rows, lengths, priorities))
        self.count += len(first)

    def take(self) -> list[tuple[int, int, Stretches]]:
        """All that is there, in messages: table, version, stretches."""
        taken = []
        for (table, version, columns), parts in self._pending.items():
            rows, lengths, priorities = parts[0] if len(parts) == 1 else map(np.concatenate, zip(*parts, strict=True))
            most = min(ITEMS_AT_ONCE, (MESSAGE_BYTES - Items.layout.size) // (8 * (2 * columns + 1)))
            for start in range(0, len(rows), most):
                part = slice(start, start + most)
                taken.append((table, version, (rows[part], lengths[part], priorities[part])))
        self._pending.clear()
        self.count = 0
        return taken

    @staticmethod
    def message(
        request: int, table: int, version: int, timeout_s: float, stretches: Stretches
    ) -> list[bytes | memoryview]:
        """The message of some items."""
        count, columns = stretches[0].shape
        return write(Items(request, table, count, columns, version, timeout_s), *stretches)


class Answers:
    """Counts what the server has answered to a writer.

    Attributes:
        acknowledged: Items that are in.
        refused: Items that are not, and never will be.
        in_flight: Items that are sent and not answered.
        failure: What the server has told of the first items that it refused since that was raised.
        end: What the server has told as it refused the steps: it closes the connection.
        leased: Where the next step goes in shared memory, when the server has told.
    """

    def __init__(self) -> None:
        self.acknowledged = self.refused = self.in_flight = 0
        self.failure: dict[str, object] | None = None
        self.end: dict[str, object] | None = None
        self.leased: int | None = None
        self._counts: dict[int, tuple[int, int]] = {}  # of each request the items, and those that are in

    def place(self) -> int:
        """Where the next step goes."""
        if self.leased is None:
            raise WordError("the server has not told a place")
        return self.leased

    def sent(self, request: int, count: int) -> None:
        """Items were sent."""
        self._counts[request] = count, 0
        self.in_flight += count

    def handle(self, kind: int, message: bytes) -> None:
        """Take an answer of the server."""
        if kind == ACK:
            word, _ = read(Number, message)
            request, done = word.request, word.number
            count, before = self._counts.get(request, (done, 0))
            if done < count:  # the others wait
                self._counts[request] = count, done
                self.in_flight -= done - before
                self.acknowledged += done - before
                return
        elif kind == LEASED:
            self.leased = read(Lease, message)[0].place
            return
        elif kind == ERROR:
            request, told = from_json(message)
            if request == 0:
                self.end = self.end or told
                return
            done, self.failure = told["done"], self.failure or told
        else:
            raise WordError(f"a writer got an answer of kind {kind}")
        count, before = self._counts.pop(request, (0, 0))
        self.in_flight -= count - before
        self.acknowledged += done - before
        self.refused += count - done if count else 0
