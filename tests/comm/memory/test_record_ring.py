import mmap

import pytest

from gmi_drl.comm.memory.record_ring import RingReader, RingWriter, ring_bytes
from gmi_drl.comm.memory.segment import LINE_BYTES
from gmi_drl.errors import GmiError

CAPACITY = 3
OFFSET = 2 * LINE_BYTES


@pytest.fixture
def memory():
    return mmap.mmap(-1, OFFSET + ring_bytes(CAPACITY) + LINE_BYTES)


@pytest.fixture
def ends(memory):
    return RingWriter(memory, OFFSET, CAPACITY), RingReader(memory, OFFSET, CAPACITY)


def put(writer, *record):
    writer.reserve()
    writer.write(*record)


def test_records_come_in_order_however_often_the_ring_goes_round(memory, ends):
    writer, reader = ends
    sent = [(number, -number, 2**40 + number, 0, 2) for number in range(20)]
    came = []
    for record in sent:
        while not writer.has_room():
            came.extend(reader.read_all())
        put(writer, *record)
    assert reader.has_more()
    came.extend(reader.read_all())
    assert came == sent and not reader.has_more() and list(reader.read_all()) == []
    assert not any(memory[:OFFSET]) and not any(memory[OFFSET + ring_bytes(CAPACITY) :])


def test_there_is_room_for_as_many_as_were_taken(ends):
    writer, reader = ends
    for _ in range(CAPACITY):
        assert writer.has_room()
        put(writer, 1, 2, 3, 4, 5)
    assert not writer.has_room()
    taking = reader.read_all()
    next(taking)
    assert not writer.has_room(), "not before the reader is done with them"
    assert len(list(taking)) == CAPACITY - 1 and writer.has_room()


def test_room_that_is_reserved_is_kept_and_nothing_is_put_without(ends):
    writer, reader = ends
    writer.reserve(2)
    assert writer.has_room() and not writer.has_room(2)
    with pytest.raises(GmiError, match="a ring of 3 records, 2 of them in use, has no room for 2 more"):
        writer.reserve(2)
    writer.write(1, 0, 0, 0, 0)
    writer.write(2, 0, 0, 0, 0)
    with pytest.raises(GmiError, match="record 3 of a ring was written without room reserved for it"):
        writer.write(3, 0, 0, 0, 0)
    assert [first for first, *_ in reader.read_all()] == [1, 2] and writer.has_room(CAPACITY)


def test_ends_that_are_opened_anew_go_on_where_the_last_ones_were(memory):
    sent, came = [(number, 0, 0, 0, 0) for number in range(20)], []
    for record in sent:
        if not RingWriter(memory, OFFSET, CAPACITY).has_room():
            taking = RingReader(memory, OFFSET, CAPACITY).read_all()
            came += [next(taking), next(taking)]
            taking.close()  # the second one was not taken: its reader had not done with it
            came.pop()
        put(RingWriter(memory, OFFSET, CAPACITY), *record)
    came += RingReader(memory, OFFSET, CAPACITY).read_all()
    assert came == sent and not RingReader(memory, OFFSET, CAPACITY).has_more()


def test_a_record_that_is_another_is_noticed(memory, ends):
    writer, reader = ends
    put(writer, 1, 2, 3, 4, 5)
    memory[OFFSET : OFFSET + 1] = b"\x02"  # counted, and not written
    with pytest.raises(GmiError, match="record 2 of a ring has the number 0"):
        list(reader.read_all())


def test_whole_lines():
    assert ring_bytes(1) == 3 * LINE_BYTES and ring_bytes(9) % LINE_BYTES == 0
