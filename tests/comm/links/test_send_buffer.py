import socket
from contextlib import ExitStack

import pytest

from gmi_drl.comm.links.send_buffer import _SO_SNDBUFFORCE, ask_for_room

SMALL, LARGE = 4096, 65536  # bytes: LARGE is less than any system's limit


class Unprivileged(socket.socket):
    """A socket of a process without CAP_NET_ADMIN."""

    def setsockopt(self, level, option, value):
        if option == _SO_SNDBUFFORCE:
            raise PermissionError
        super().setsockopt(level, option, value)


@pytest.fixture(params=[socket.socket, Unprivileged])
def pair(request):
    """Two ends, of which the first takes little at once."""
    with ExitStack() as opened:
        here, there = (opened.enter_context(request.param(fileno=one.detach())) for one in socket.socketpair())
        here.setblocking(False)
        here.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, SMALL)
        yield here, there


def size_of(one):
    return one.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF)


def test_a_socket_takes_what_it_was_asked_to_while_nobody_reads(pair):
    here, _ = pair
    assert here.send(bytes(LARGE)) < LARGE
    ask_for_room(here, 2 * LARGE)
    assert here.send(bytes(LARGE)) == LARGE


def test_one_that_has_room_and_one_that_may_not_have_as_much_stay_as_they_are(pair):
    here, _ = pair
    before = size_of(here)
    ask_for_room(here, before // 2)
    assert size_of(here) == before
    if isinstance(here, Unprivileged):
        ask_for_room(here, 2**40)
        assert size_of(here) == before
