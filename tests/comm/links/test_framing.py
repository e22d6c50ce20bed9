"""A word that says where the numbers behind it go."""

import socket
from select import POLLIN, poll

from gmi_drl.comm.links.framing import FIRST_OTHER_KIND, FramedConnection


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
