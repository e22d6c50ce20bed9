"""A ring of short records from one process to another, in order, by shared memory.

The sender counts what it has written, the receiver what it has taken, each in a line of its own. A record is in the
memory before it is counted, and stays there until it is taken. Both counts are nowhere else: an end that is opened
where another one has ended goes on after it.
"""

import mmap
import struct
from collections.abc import Iterator

from gmi_drl.comm.memory.fence import order_loads, publish
from gmi_drl.comm.memory.segment import LINE_BYTES
from gmi_drl.errors import GmiError

Numbers = tuple[int, int, int, int, int]
"""Of a record; what they mean is the users' affair."""

_RECORD = struct.Struct("=6q")  # the last one is the record's own number, from 1
_HEAD_BYTES = 2 * LINE_BYTES
_WRITTEN, _TAKEN = 0, LINE_BYTES // 8


def ring_bytes(capacity: int) -> int:
    """What a ring of so many records takes, in whole lines."""
    return _HEAD_BYTES + -(-capacity * _RECORD.size // LINE_BYTES) * LINE_BYTES


class _End:
    """An end of a ring. Where one has ended another may be opened, in any process, but not two at a time.

    Args:
        memory: Zeroed before the first end is opened.
        offset: Where the ring begins, at a line.
        capacity: Records that may be under way.
    """

    _PLACE: int  # of the word in which this end counts

    def __init__(self, memory: mmap.mmap, offset: int, capacity: int) -> None:
        self._words = memoryview(memory)[offset : offset + _HEAD_BYTES].cast("q")
        self._records = memoryview(memory)[offset + _HEAD_BYTES : offset + ring_bytes(capacity)]
        self._capacity, self._count = capacity, self._words[self._PLACE]


class RingWriter(_End):
    """The sender's end, which goes on after what was put.

    Room is reserved before records are put: whoever must be able to put several reserves room for all of them.
    """

    _PLACE = _WRITTEN

    def __init__(self, memory: mmap.mmap, offset: int, capacity: int) -> None:
        super().__init__(memory, offset, capacity)
        self._reserved = self._count  # records that were put or have room

    def has_room(self, records: int = 1) -> bool:
        """Whether room for so many more may be reserved."""
        return bool(self._reserved + records - self._words[_TAKEN] <= self._capacity)

    def reserve(self, records: int = 1) -> None:
        """Keep room for so many more than are put or have room already.

        Raises:
            GmiError: If there is no room.
        """
        if not self.has_room(records):
            used = self._reserved - self._words[_TAKEN]
            raise GmiError(f"a ring of {self._capacity} records, {used} of them in use, has no room for {records} more")
        self._reserved += records

    def put(self, first: int, second: int, third: int, fourth: int, fifth: int) -> None:
        """Write one. What it tells of was stored before it, as others see it.

        Raises:
            GmiError: If no room was reserved for it. Nothing is overwritten.
        """
        if self._count >= self._reserved:
            raise GmiError(f"record {self._count + 1} of a ring was put without room reserved for it")
        place = self._count % self._capacity * _RECORD.size
        self._count = count = self._count + 1
        _RECORD.pack_into(self._records, place, first, second, third, fourth, fifth, count)
        publish(self._words, _WRITTEN, count)


class RingReader(_End):
    """The receiver's end, which goes on after what was taken."""

    _PLACE = _TAKEN

    def has_more(self) -> bool:
        """Whether something was written that is not taken."""
        return bool(self._words[_WRITTEN] > self._count)

    def take_all(self) -> Iterator[Numbers]:
        """What has been written by now and not been taken; a record is taken when the next one is asked for.

        Raises:
            GmiError: If one is missing, or there twice.
        """
        written = self._words[_WRITTEN]
        order_loads()
        try:
            while self._count < written:
                *record, number = _RECORD.unpack_from(self._records, self._count % self._capacity * _RECORD.size)
                if number != self._count + 1:
                    text = f"record {self._count + 1} of a ring has the number {number}"
                    raise GmiError(f"{text}: one is lost or there twice")
                yield record[0], record[1], record[2], record[3], record[4]
                self._count += 1
        finally:
            publish(self._words, _TAKEN, self._count)
