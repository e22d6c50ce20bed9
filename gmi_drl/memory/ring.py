"""A ring of short records from one process to another, in order, by shared memory.

The sender counts what it has written, the receiver what it has taken, each in a line of its own. A record is in the
memory before it is counted, and stays there until it is taken: processors that store in order alone
(`hardware.STORES_IN_ORDER`).
"""

import mmap
import struct
from collections.abc import Iterator

from gmi_drl.errors import GmiError
from gmi_drl.memory.segment import LINE_BYTES

Numbers = tuple[int, int, int, int, int]
"""Of a record; what they mean is the users' affair."""

_RECORD = struct.Struct("=6q")  # the last one is the record's own number, from 1
_HEAD_BYTES = 2 * LINE_BYTES
_TAKEN = LINE_BYTES // 8


def ring_bytes(capacity: int) -> int:
    """What a ring of so many records takes, in whole lines."""
    return _HEAD_BYTES + -(-capacity * _RECORD.size // LINE_BYTES) * LINE_BYTES


class _End:
    def __init__(self, memory: mmap.mmap, offset: int, capacity: int) -> None:
        self._words = memoryview(memory)[offset : offset + _HEAD_BYTES].cast("q")
        self._records = memoryview(memory)[offset + _HEAD_BYTES : offset + ring_bytes(capacity)]
        self._capacity, self._count = capacity, 0


class RingWriter(_End):
    """The sender's end. Where one has ended another may be opened, which goes on after what was put.

    Args:
        memory: Zeroed before either end is opened.
        offset: Where the ring begins, at a line.
        capacity: Records that may be under way.
    """

    def __init__(self, memory: mmap.mmap, offset: int, capacity: int) -> None:
        super().__init__(memory, offset, capacity)
        self._count = self._words[0]

    def has_room(self) -> bool:
        """Whether one more may be put."""
        return bool(self._count - self._words[_TAKEN] < self._capacity)

    def put(self, first: int, second: int, third: int, fourth: int, fifth: int) -> None:
        """Write one; only where there is room."""
        place = self._count % self._capacity * _RECORD.size
        self._count = count = self._count + 1
        _RECORD.pack_into(self._records, place, first, second, third, fourth, fifth, count)
        self._words[0] = count


class RingReader(_End):
    """The receiver's end; see `RingWriter`."""

    def has_more(self) -> bool:
        """Whether something was written that is not taken."""
        return bool(self._words[0] > self._count)

    def take_all(self) -> Iterator[Numbers]:
        """What has been written by now and not been taken; a record is taken when the next one is asked for.

        Raises:
            GmiError: If one is missing, or there twice.
        """
        written = self._words[0]
        while self._count < written:
            *record, number = _RECORD.unpack_from(self._records, self._count % self._capacity * _RECORD.size)
            if number != self._count + 1:
                raise GmiError(
                    f"record {self._count + 1} of a ring has the number {number}: one is lost or there twice"
                )
            yield record[0], record[1], record[2], record[3], record[4]
            self._count += 1
        self._words[_TAKEN] = self._count
