import json
import socket
import struct
from contextlib import suppress
from types import SimpleNamespace

import pytest

from gmi_drl.errors import MachineError
from gmi_drl.launch.nodes import arrivals as module
from gmi_drl.launch.nodes.arrivals import arrivals

LIVES = SimpleNamespace(why_gone=lambda: None)


def hello(token, node="a"):
    text = json.dumps({"node": node, "token": token, "machine": "m", "cpus": [0], "versions": {}}).encode()
    return struct.pack("<II", len(text), 0) + text


@pytest.fixture
def listener():
    with socket.create_server(("127.0.0.1", 0)) as made:
        yield made


def dial(listener, data):
    connection = socket.create_connection(listener.getsockname())
    connection.sendall(data)
    return connection


def test_who_knows_the_token_comes_and_strangers_are_turned_away(listener):
    strangers = [
        dial(listener, data)
        for data in (
            hello("wrong"),
            b"GET / HTTP/1.1\r\n\r\n",
            hello("right", "elsewhere"),
            struct.pack("<II", 2, 0) + b"[]",
            struct.pack("<II", 60000, 0) + b"[" * 60000,
        )
    ]
    with dial(listener, hello("right")):
        (arrival,) = arrivals(listener, "right", {"a": LIVES})
    assert (arrival.node, arrival.machine, arrival.cpus) == ("a", "m", [0])
    for stranger in strangers:
        with suppress(ConnectionResetError):  # what it had said was not read to its end
            assert stranger.recv(1) == b""
    for one in (*strangers, arrival.connection):
        one.close()


def test_who_does_not_come_in_time_is_named(listener, monkeypatch):
    monkeypatch.setattr(module, "ARRIVE_S", 0.3)
    with pytest.raises(MachineError, match="not come within 0 s: node a, b: do they reach"):
        list(arrivals(listener, "right", {"a": LIVES, "b": LIVES}))
