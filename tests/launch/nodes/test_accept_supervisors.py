import secrets
import socket
from contextlib import ExitStack, closing, suppress
from types import SimpleNamespace

import pytest

from gmi_drl.comm.links.token_listener import greeting
from gmi_drl.errors import MachineError
from gmi_drl.launch.nodes import accept_supervisors as module
from gmi_drl.launch.nodes.accept_supervisors import SupervisorListener, introduction

LIVES = SimpleNamespace(why_ended=lambda: None)
RIGHT, WRONG = secrets.token_hex(16), secrets.token_hex(16)


def accept_supervisors(listener, token, supervisors, *more):
    with closing(SupervisorListener(listener, token, supervisors)) as accepting:
        yield from accepting.await_all(*more)


def hello(token, node="a"):
    return introduction(token, node, "m", [0], {})


@pytest.fixture
def listener():
    with socket.create_server(("127.0.0.1", 0)) as made:
        yield made


def dial(listener, data):
    connection = socket.create_connection(listener.getsockname())
    connection.settimeout(60)
    connection.sendall(data)
    return connection


def test_who_knows_the_token_comes_and_strangers_are_turned_away(listener):
    strangers = [
        dial(listener, data)
        for data in (
            hello(WRONG),
            b"GET / HTTP/1.1\r\n\r\n",
            hello(RIGHT, "elsewhere"),
            greeting(RIGHT, b"[]"),
            greeting(RIGHT, b"[" * 60000),
            greeting(RIGHT, b'{"node": [], "machine": "m", "cpus": [0], "versions": {}}'),
            greeting(RIGHT, b'{"node": "a", "machine": "m", "cpus": 3, "versions": {}}'),
        )
    ]
    with dial(listener, hello(RIGHT)):
        (arrival,) = accept_supervisors(listener, RIGHT, {"a": LIVES})
    assert (arrival.node, arrival.machine, arrival.cpus) == ("a", "m", [0])
    for stranger in strangers:
        with suppress(ConnectionResetError):  # what it had said was not read to its end
            assert stranger.recv(1) == b""
    for one in (*strangers, arrival.connection):
        one.close()


def test_who_does_not_come_in_time_is_named(listener, monkeypatch):
    monkeypatch.setattr(module, "ARRIVE_S", 0.3)
    with pytest.raises(MachineError, match="not connected within 0 s: node a, b: do they reach"):
        list(accept_supervisors(listener, RIGHT, {"a": LIVES, "b": LIVES}))


def test_silent_strangers_delay_nobody_and_nobody_can_connect_after_the_last(listener):
    with ExitStack() as life:
        for _ in range(100):
            life.enter_context(socket.create_connection(listener.getsockname()))
        agents = [life.enter_context(dial(listener, hello(RIGHT, node))) for node in "ab"]
        came = [
            life.enter_context(one.connection)
            for one in accept_supervisors(listener, RIGHT, dict.fromkeys("ab", LIVES))
        ]
        assert {one.getpeername() for one in came} == {one.getsockname() for one in agents}
        with pytest.raises(ConnectionRefusedError):
            dial(listener, hello(RIGHT))


def test_one_that_may_come_later_and_has_ended_is_told_once(listener):
    ends = SimpleNamespace(why_ended=lambda: "its python is another one")
    with closing(SupervisorListener(listener, RIGHT, {"a": LIVES, "b": ends})) as accepting:
        assert accepting.give_up() == {"b": "its python is another one"}
        assert accepting.missing == {"a"} and accepting.give_up() == {}


def test_of_those_that_have_ended_the_one_that_is_needed_is_named(listener):
    ended = {node: SimpleNamespace(why_ended=lambda why=f"{node} was killed": why) for node in "ab"}
    with pytest.raises(MachineError, match="node b has not connected: b was killed"):
        list(accept_supervisors(listener, RIGHT, ended, lambda nodes: nodes <= {"a"}))
