"""A listener, connected to from this process."""

import secrets
import socket
import time
from contextlib import closing, contextmanager

import pytest

from gmi_drl.comm.links import token_listener as module
from gmi_drl.comm.links.token_listener import Greeting, TokenListener, greeting
from gmi_drl.errors import MachineError, UsageError

TOKEN, WRONG = secrets.token_hex(16), secrets.token_hex(16)
DEADLINE_S = 60.0


@contextmanager
def listening(most_bytes=100, guests=1):
    with (
        socket.create_server(("127.0.0.1", 0), backlog=1024) as server,
        closing(TokenListener(server, TOKEN, most_bytes, guests)) as listener,
    ):
        listener.address = server.getsockname()
        yield listener


def connect(listener, said=b""):
    connection = socket.create_connection(listener.address)
    connection.sendall(said)
    return connection


def next_guest(listener):
    deadline = time.monotonic() + DEADLINE_S
    while time.monotonic() < deadline:
        for guest in listener.poll(0.1):
            return guest
    raise AssertionError("nobody was let in")


def is_turned_away(listener, connection):
    """Whether the listener closes this connection, on which nothing more is said."""
    connection.settimeout(0.02)
    deadline = time.monotonic() + DEADLINE_S
    while time.monotonic() < deadline:
        assert not listener.poll(0.02)
        try:
            return connection.recv(1) == b""
        except ConnectionResetError:  # what it had said was not read to its end
            return True
        except TimeoutError:
            pass
    return False


def test_who_has_the_token_comes_in_with_what_it_says_and_nothing_behind_that_is_read():
    with listening() as listener, connect(listener, greeting(TOKEN, b"it is me") + b"later") as guest:
        let_in = next_guest(listener)
        assert let_in.payload == b"it is me" and let_in.connection.recv(99) == b"later"
        let_in.connection.sendall(b"welcome")
        assert guest.recv(99) == b"welcome"
        let_in.connection.close()


@pytest.mark.parametrize(
    "said",
    [greeting(WRONG, b"it is me"), b"GET / HTTP/1.1\r\n" * 3, greeting(TOKEN, b"x" * 101)],
    ids=["wrong token", "HTTP", "too long"],
)
def test_who_says_anything_else_is_turned_away(said):
    with listening() as listener, connect(listener, said) as stranger:
        assert is_turned_away(listener, stranger)


def test_a_greeting_may_come_byte_by_byte():
    said = greeting(TOKEN, b"slow")
    with listening() as listener, connect(listener) as guest:
        for one in said[:-1]:
            guest.sendall(bytes([one]))
            assert not listener.poll(0.001)
        guest.sendall(said[-1:])
        assert next_guest(listener).payload == b"slow"


def test_silent_strangers_neither_delay_nor_displace_who_has_the_token(monkeypatch):
    monkeypatch.setattr(module, "PLACES", 8)
    with listening() as listener:
        early = connect(listener)
        assert not listener.poll(DEADLINE_S)
        strangers = [connect(listener, b"x"[: n % 2]) for n in range(7)]
        early.sendall(greeting(TOKEN, b"early"))
        more = [connect(listener) for _ in range(20)]
        late = connect(listener, greeting(TOKEN, b"late"))
        came = {next_guest(listener).payload, next_guest(listener).payload}
        assert came == {b"early", b"late"}
        for one in (early, late, *strangers, *more):
            one.close()


def test_of_more_silent_ones_than_there_are_places_the_oldest_go_first(monkeypatch):
    monkeypatch.setattr(module, "PLACES", 2)
    with listening() as listener:
        strangers = []
        for _ in range(5):
            strangers.append(connect(listener))
            assert not listener.poll(DEADLINE_S)
        assert all(is_turned_away(listener, one) for one in strangers[:2])
        for one in strangers[2:]:
            one.settimeout(0.01)
            with pytest.raises(TimeoutError):
                one.recv(1)
            one.close()


def test_who_says_nothing_has_its_time(monkeypatch):
    monkeypatch.setattr(module, "HELLO_S", 0.1)
    with listening() as listener, connect(listener, b"x") as stranger:
        assert is_turned_away(listener, stranger)


def test_closed_listener_refuses_connections():
    with listening() as listener:
        with connect(listener) as stranger:
            listener.poll(DEADLINE_S)
            listener.close()
            assert stranger.recv(1) == b""
        with pytest.raises(ConnectionRefusedError):
            connect(listener)


def test_without_descriptors_it_says_so(monkeypatch):
    with listening() as listener:

        class Full:
            fileno = listener._listener.fileno

            def accept(self):
                raise OSError(24, "Too many open files")

            def shutdown(self, how):
                pass

        with connect(listener):
            listener._listener = Full()
            with pytest.raises(MachineError, match=r"no connection can be accepted: Too many open files \(ulimit -n\)"):
                listener.poll(DEADLINE_S)


def test_a_token_has_32_letters():
    for token in ("short", "ü" * 32):
        with pytest.raises(UsageError, match="a token has 32 letters"):
            greeting(token, b"")


def test_an_answer_is_read_like_a_greeting():
    here, there = socket.socketpair()
    with here, there:
        answer = Greeting(here, TOKEN, 10)
        assert answer.read() is None
        there.sendall(greeting(TOKEN, b"hello"))
        assert answer.read() == b"hello"
        there.sendall(greeting(WRONG, b"hello"))
        with pytest.raises(ConnectionRefusedError, match="does not have the token"):
            Greeting(here, TOKEN, 10).read()
