"""What is measured between two nodes, here between two threads."""

import secrets
import socket
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress

import pytest

from gmi_drl.comm.links.token_listener import TokenListener, greeting
from gmi_drl.launch.ray import network


def test_what_is_measured_is_the_way_to_who_has_the_token(monkeypatch):
    monkeypatch.setattr(network, "BULK_S", 0.05)
    token, wrong = secrets.token_hex(16), secrets.token_hex(16)
    with (
        socket.create_server(("127.0.0.1", 0)) as here,
        closing(TokenListener(here, token, 0, 1)) as door,
        socket.create_connection(here.getsockname()) as silent,
        socket.create_connection(here.getsockname()) as other,
        ThreadPoolExecutor(1) as pool,
    ):
        other.sendall(greeting(wrong, b""))
        asked = pool.submit(network._measure, *here.getsockname(), token)
        network._serve(door)
        bits_per_s, round_trip_s = asked.result(60)
        silent.settimeout(0.01)
        with pytest.raises(TimeoutError):
            silent.recv(1)
        with suppress(ConnectionResetError):
            assert other.recv(1) == b""
    assert bits_per_s > 0 and round_trip_s > 0
