import queue
import socket
import threading
import time

import pytest

from gmi_drl.comm.links import control as module
from gmi_drl.comm.links.control import ControlConnection

LONG_S = 60.0  # only ends a hang
PATIENCE_S = 1.5
"""More than `SUSPECT_S` and the second that a look adds at most: so even a late look suspects before it gives up."""


class End:
    """One end of a connection, with what it hears."""

    def __init__(self, connection, **more):
        self.connection, self.heard, self.lost = connection, queue.Queue(), queue.Queue()
        self.suspected = queue.Queue()
        said = lambda message, data: self.heard.put((message, data))  # noqa: E731
        self.wire = ControlConnection(connection, said, self.lost.put, self.suspected.put, **more)


@pytest.fixture
def pair(request):
    """Two ends over TCP; the second is not yet wired. Silence counts if the test asks for it."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        there = socket.create_connection(listener.getsockname())
        here, _ = listener.accept()
    end = End(here, patience_s=getattr(request, "param", LONG_S))
    end.wire.start()
    yield end, there
    end.wire.close()
    there.close()


silent = pytest.mark.parametrize("pair", [PATIENCE_S], indirect=True, ids=["silent"])


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(module, "SUSPECT_S", 0.3)
    monkeypatch.setattr(module, "HEARTBEAT_S", 0.1)
    monkeypatch.setattr(module, "_LOOK_S", 0.05)


def test_words_arrive_in_order_with_their_bytes(pair):
    end, there = pair
    other = End(there)
    other.wire.start()
    senders = [
        threading.Thread(target=other.wire.send, args=({"say": "many", "n": n}, bytes([n]) * n)) for n in range(9)
    ]
    for sender in senders:
        sender.start()
    got = sorted((end.heard.get(timeout=LONG_S) for _ in senders), key=lambda pair: pair[0]["n"])
    assert got == [({"say": "many", "n": n}, bytes([n]) * n) for n in range(9)]
    other.wire.send({"say": "first"})
    other.wire.send({"say": "second"})
    assert [end.heard.get(timeout=LONG_S)[0]["say"] for _ in range(2)] == ["first", "second"]
    other.wire.close()
    assert end.lost.get(timeout=LONG_S) == "it has closed the connection"


@silent
def test_what_is_done_about_a_message_is_no_silence_of_the_other_end(pair):
    end, there = pair
    begun, is_over = threading.Event(), threading.Event()
    end.wire._on_message = lambda message, data: (begun.set(), is_over.wait(LONG_S))  # a disk that stands still
    other = End(there)
    other.wire.start()
    other.wire.send({"say": "keep"})
    assert begun.wait(LONG_S)
    with pytest.raises(queue.Empty):
        end.lost.get(timeout=2 * PATIENCE_S)
    end.wire._patience_s = LONG_S
    is_over.set()
    other.wire.close()


def test_beats_keep_a_connection_on_which_nothing_is_said(pair):
    end, there = pair
    other = End(there)
    other.wire.start()
    silences, deadline = {end.wire._silence}, time.monotonic() + LONG_S
    while len(silences) < 6:  # each beat ends one, and the next begins
        assert time.monotonic() < deadline
        silences.add(end.wire._silence)
        time.sleep(0.01)
    assert end.heard.empty() and end.lost.empty()
    other.wire.close()


@silent
def test_silence_is_suspected_once_and_then_given_up(pair):
    end, _ = pair
    assert end.suspected.get(timeout=LONG_S) > 0.3
    assert "it has been silent" in end.lost.get(timeout=LONG_S)
    assert end.suspected.empty() and end.lost.empty()


def test_what_is_no_message_of_ours_ends_the_connection(pair):
    end, there = pair
    there.sendall(b"GET / HTTP/1.1\r\n\r\n")
    assert "is too long" in end.lost.get(timeout=LONG_S)


def test_who_closes_is_told_of_nothing_more(pair):
    end, there = pair
    end.wire.close()
    there.close()
    with pytest.raises(queue.Empty):
        end.lost.get(timeout=0.8)


@pytest.mark.parametrize("which", ["_on_message", "_on_silence"])
def test_an_end_that_fails_itself_gives_the_other_up_and_says_why(pair, which):
    end, there = pair

    def fail(*told):
        raise KeyError("say")

    setattr(end.wire, which, fail)
    if which == "_on_message":
        other = End(there)
        other.wire.start()
        other.wire.send({"x": 1})
    assert end.lost.get(timeout=LONG_S) == "its connection failed at this end: KeyError: 'say'"
    if which == "_on_message":
        assert other.lost.get(timeout=LONG_S) == "it has closed the connection"
        other.wire.close()
