"""A ring buffer of short records in shared memory: one process writes, another reads, in order.

The writer counts the records that it has written, the reader those that it has read, each in a line of its own. A
record is stored before it is counted, and stays until it is read. An end keeps its count nowhere else, so a process
that opens the end of one that has ended goes on after its last record.
"""

import mmap
import struct
from collections.abc import Iterator

from gmi_drl.comm.memory.fence import order_loads, publish
from gmi_drl.comm.memory.segment import LINE_BYTES
from gmi_drl.errors import GmiError

Numbers = tuple[int, int, int, int, int]
"""The numbers of a record; the ring's users define their meaning."""

_RECORD = struct.Struct("=6q")  # the last one is the record's own number, from 1
_HEAD_BYTES = 2 * LINE_BYTES
_WRITTEN, _READ = 0, LINE_BYTES // 8


def ring_bytes(capacity: int) -> int:
    """The bytes that a ring of `capacity` records takes: whole cache lines, with the two of its counters."""
    return _HEAD_BYTES + -(-capacity * _RECORD.size // LINE_BYTES) * LINE_BYTES


class _End:
    """One end of a ring. Another process may open it after this one has ended, but not beside it.

    Args:
        memory: Zeroed before the first end is opened.
        offset: Where the ring begins, at the start of a line.
        capacity: The most records that may be written and not read.
    """

    _PLACE: int  # of the word in which this end counts

    def __init__(self, memory: mmap.mmap, offset: int, capacity: int) -> None:
        self._words = memoryview(memory)[offset : offset + _HEAD_BYTES].cast("q")
        self._records = memoryview(memory)[offset + _HEAD_BYTES : offset + ring_bytes(capacity)]
        self._capacity, self._count = capacity, self._words[self._PLACE]


class RingWriter(_End):
    """The writer's end.

    A writer reserves room before it writes records: one that must be able to write several reserves room for all of
    them.
    """

    _PLACE = _WRITTEN

    def __init__(self, memory: mmap.mmap, offset: int, capacity: int) -> None:
        super().__init__(memory, offset, capacity)
        self._reserved = self._count  # records that were put or have room

    def has_room(self, records: int = 1) -> bool:
        """Whether room for `records` more may be reserved."""
        return bool(self._reserved + records - self._words[_READ] <= self._capacity)

    def reserve(self, records: int = 1) -> None:
        """Reserve room for `records` more.

        Raises:
            GmiError: If there is no room.
        """
        if not self.has_room(records):
            used = self._reserved - self._words[_READ]
            raise GmiError(f"a ring of {self._capacity} records, {used} of them in use, has no room for {records} more")
        self._reserved += records

    def write(self, first: int, second: int, third: int, fourth: int, fifth: int) -> None:
        """Write one record. Readers that see it also see everything that this thread stored before.

        Raises:
            GmiError: If no room was reserved for it. Nothing is overwritten.
        """
        if self._count >= self._reserved:
            raise GmiError(f"record {self._count + 1} of a ring was written without room reserved for it")
        place = self._count % self._capacity * _RECORD.size
        self._count = count = self._count + 1
        _RECORD.pack_into(self._records, place, first, second, third, fourth, fifth, count)
        publish(self._words, _WRITTEN, count)


class RingReader(_End):
    """The reader's end."""

    _PLACE = _READ

    def has_more(self) -> bool:
        """Whether there is a record that was not read."""
        return bool(self._words[_WRITTEN] > self._count)

    def read_all(self) -> Iterator[Numbers]:
        """The records that are there now and were not read. A record counts as read when the next one is requested.

        Raises:
            GmiError: If a record is missing, or there twice.
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
            publish(self._words, _READ, self._count)
