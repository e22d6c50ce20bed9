"""A word that says where the numbers behind it go."""

import socket
import struct
from random import Random
from select import POLLIN, poll

import pytest

from gmi_drl.comm.links.framing import CALL, DATA, FAILURE, FIRST_OTHER_KIND, FramedConnection, FrameError


def connections():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        dialled = socket.create_connection(listener.getsockname())
        return FramedConnection(dialled, 1), FramedConnection(listener.accept()[0], 1)


def words(connection):
    """All that come, until the other end is closed."""
    looking = poll()
    looking.register(connection, POLLIN)
    while connection.is_open:
        assert looking.poll(60_000)
        yield from connection.read()


def test_numbers_go_straight_to_where_the_word_before_them_says():
    connection, other = connections()
    targets = [memoryview(bytearray(3)) for _ in range(4)]
    for number in range(4):
        other.send_frame(FIRST_OTHER_KIND + number, b"next")
        other.send_data(memoryview(bytes([number] * 3)))
    other.close()
    came = []
    for kind, said in words(connection):
        assert said == b"next" and not connection.is_receiving, "those before are there"
        connection.receive_data(targets[kind - FIRST_OTHER_KIND])
        came.append(kind - FIRST_OTHER_KIND)
    assert came == [0, 1, 2, 3] and connection.received == 12 and not connection.is_receiving
    assert [bytes(target) for target in targets] == [bytes([number] * 3) for number in range(4)]
    assert not connection._inbox, "nothing was kept elsewhere meanwhile"
    connection.close()


def test_frames_that_are_sent_together_arrive_one_after_the_other_in_several_targets():
    connection, other = connections()
    pieces = [memoryview(bytes([number])) for number in range(200)]
    other.send_together([(FIRST_OTHER_KIND, [b"a", b"b"]), (DATA, pieces), (DATA, [b"xy"]), (FIRST_OTHER_KIND, [])])
    other.close()
    targets = memoryview(bytearray(200)), memoryview(bytearray(2))
    came = []
    for _, said in words(connection):
        came.append(said)
        if said:
            connection.receive_data(*targets)
    assert came == [b"ab", b""] and bytes(targets[0]) == bytes(range(200)) and bytes(targets[1]) == b"xy"
    connection.close()


@pytest.mark.parametrize("views", [1, 1000])
def test_more_than_a_socket_takes_at_once_comes_whole_and_in_order(views):
    connection, other = connections()
    whole = bytes(range(250)) * 80_000
    size = len(whole) // views
    pieces = [memoryview(whole)[start : start + size] for start in range(0, len(whole), size)]
    target = memoryview(bytearray(len(whole)))
    connection.receive_data(target)
    other.send_together([(DATA, pieces)])
    assert other.is_sending and other.sent < len(whole)
    other.send_together([(FIRST_OTHER_KIND, [b"behind"])])
    came = []
    while not came:
        other.flush()
        came += connection.read()
    assert came == [(FIRST_OTHER_KIND, b"behind")] and bytes(target) == whole
    assert not other.is_sending and other.sent == len(whole) and other.taken == len(whole) + 2 * 16 + 6
    connection.close()
    other.close()


def test_a_reader_may_stop_after_some_bytes_and_what_is_left_can_be_polled():
    connection, other = connections()
    other.send_together([(FIRST_OTHER_KIND, [b"word"])] * 3)
    looking = poll()
    looking.register(connection, POLLIN)
    assert looking.poll(60_000)
    assert len(list(connection.read(17, may_stop=True))) == 1
    assert looking.poll(0) and next(connection.read(may_stop=True)) == (FIRST_OTHER_KIND, b"word")
    assert looking.poll(0), "the last message waits in the socket"
    other.close()
    assert len(list(words(connection))) == 1
    connection.close()


def test_a_reader_that_takes_everything_leaves_no_whole_message_behind():
    connection, other = connections()
    other.send_together([(FIRST_OTHER_KIND, [b"word"])] * 200)
    looking = poll()
    looking.register(connection, POLLIN)
    came = []
    while looking.poll(0 if came else 60_000):
        came += connection.read(17)
    assert len(came) == 200
    connection.close()
    other.close()


@pytest.mark.parametrize("seed", range(20))
def test_frames_arrive_whole_however_they_are_cut(seed):
    """Headers, messages and numbers in pieces of any size, read ahead of a frame or not."""
    random = Random(seed)
    connection, other = connections()
    sent = []
    for _ in range(30):
        size = random.choice([0, 1, 15, 100, 4080, 4096, 5000, 9000])
        kind = random.choice([DATA, FIRST_OTHER_KIND]) if size else FIRST_OTHER_KIND
        sent.append((kind, random.randbytes(size)))
    stream = b"".join(struct.pack("<QQ", kind, len(text)) + text for kind, text in sent)
    targets = [bytearray(len(text)) for kind, text in sent if kind == DATA]
    if random.getrandbits(1):
        connection.receive_data(*map(memoryview, targets))
    came, start = [], 0
    while start < len(stream):
        end = start + random.choice([1, 16, 17, 4096, 4097, 20_000])
        other._socket.setblocking(True)
        other._socket.sendall(stream[start:end])
        came += connection.read(may_stop=bool(random.getrandbits(1)))
        start = end
    other.close()
    came += words(connection)
    connection.receive_data(*map(memoryview, targets[len(targets) - len(connection._inbox) :]))
    assert came == [one for one in sent if one[0] != DATA]
    assert targets == [text for kind, text in sent if kind == DATA]
    assert connection.received == sum(map(len, targets)) and not connection.is_receiving
    connection.close()


@pytest.mark.parametrize(
    ("kind", "size", "reason"),
    [
        (FIRST_OTHER_KIND, 65, "a message of 65 bytes came, 64 are the most"),
        (FIRST_OTHER_KIND, 2**63, "are the most"),
        (DATA, 8, "8 bytes of data came where 0 were expected"),
        (DATA, 0, "0 bytes of data came where 0 were expected"),
        (CALL, 3, "a frame of kind 0 came"),
    ],
)
def test_a_peer_that_is_not_trusted_makes_no_room_for_what_it_may_not_send(kind, size, reason):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        stranger = socket.create_connection(listener.getsockname())
        connection = FramedConnection(listener.accept()[0], 1, message_bytes=64)
    stranger.sendall(struct.pack("<QQ", kind, size))
    stranger.close()
    with pytest.raises(FrameError, match=reason):
        list(words(connection))
    assert not connection.calls and not connection._inbox
    connection.close()


def test_a_peer_that_is_not_trusted_may_tell_why_it_ends():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        stranger = socket.create_connection(listener.getsockname())
        connection = FramedConnection(listener.accept()[0], 1, message_bytes=64)
    stranger.sendall(struct.pack("<QQ", FAILURE, 3) + b"why")
    stranger.close()
    assert list(words(connection)) == [(FAILURE, b"why")]
    connection.close()


def test_data_of_another_size_than_expected_is_refused_from_a_peer_that_is_not_trusted():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        stranger = socket.create_connection(listener.getsockname())
        connection = FramedConnection(listener.accept()[0], 1, message_bytes=64)
    connection.receive_data(memoryview(bytearray(4)))
    stranger.sendall(struct.pack("<QQ", DATA, 5))
    stranger.close()
    with pytest.raises(FrameError, match="5 bytes of data came where 4 were expected"):
        list(words(connection))
    connection.close()
