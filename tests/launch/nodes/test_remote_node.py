"""What the launcher hears of its nodes, and of those that are lost."""

import json
import socket
import threading
import time
from types import SimpleNamespace

import pytest
from on_two import over

from gmi_drl.comm.links.control import ControlConnection
from gmi_drl.errors import GmiDiedError, GmiError, MachineError
from gmi_drl.launch.nodes import remote_node
from gmi_drl.launch.nodes.accept_supervisors import Arrival, introduction
from gmi_drl.launch.nodes.remote_hosts import LOST_END_S, on_nodes
from gmi_drl.launch.nodes.remote_node import RemoteNode
from gmi_drl.launch.nodes.supervisor_starters import END_S
from gmi_drl.launch.processes.gmi_handle import LOST

LAYOUT = over("a", "b", gmis=1)
WAIT_S = 60.0


class Node:
    """A node of the launcher, whose agent is this test."""

    def __init__(self):
        with socket.create_server(("127.0.0.1", 0)) as listener:
            there = socket.create_connection(listener.getsockname())
            here, _ = listener.accept()
        self.why_ended = lambda: None
        self.got = []
        self.ours = ControlConnection(there, lambda message, data: self.got.append(message), lambda why: None)
        agent = SimpleNamespace(why_ended=lambda: self.why_ended())
        self.its = RemoteNode(Arrival("a", here, "m", [0], {}), agent, lambda line: None)
        self.its.first_gmi = 3
        self.ours.start()

    def lose(self):
        self.ours.close()
        _until(lambda: self.its.is_lost)

    def error(self):
        with pytest.raises(GmiError) as caught:
            self.its.response("opened", WAIT_S)
        return caught.value


@pytest.fixture
def node():
    made = Node()
    yield made
    made.its.close()
    made.ours.close()


def _until(is_so):
    deadline = time.monotonic() + WAIT_S
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_what_was_asked_for_is_answered(node):
    node.ours.send({"type": "opened", "drains": True})
    assert node.its.response("opened", WAIT_S) == {"type": "opened", "drains": True}


def test_what_went_wrong_there_is_told_with_its_node_and_exit_code(node):
    node.ours.send({"type": "failed", "message": "no such device", "exit_code": 4})
    error = node.error()
    assert (str(error), error.exit_code) == ("node a: no such device", 4)


def test_who_does_not_answer_is_named_with_what_it_was_asked_for(node):
    with pytest.raises(GmiError, match=r"^node a has not opened within 0 s$"):
        node.its.response("opened", 0.1)


def test_a_late_answer_is_not_that_to_the_next_request(node):
    node.its.request({"type": "start"})
    with pytest.raises(GmiError, match="has not started"):
        node.its.response("started", 0.1)
    node.its.request({"type": "start"})
    _until(lambda: len(node.got) == 2)
    for pid, request in zip((1, 2), node.got, strict=True):
        node.ours.send({"type": "started", "pid": pid, "number": request["number"]})
    assert node.its.response("started", WAIT_S)["pid"] == 2


def test_a_node_that_is_lost_is_so_at_once_whoever_asks_it_and_whatever_it_has_answered(node, monkeypatch):
    monkeypatch.setattr(remote_node, "ENDED_S", 0.1)
    node.ours.send({"type": "opened"})
    node.lose()
    for _ in range(3):
        error = node.error()
        assert isinstance(error, GmiDiedError) and (error.gmi_id, error.exit_code_of_gmi) == (3, LOST)
        assert str(error) == "GMI 3 (node a: it has closed the connection) was lost with its node"


def test_it_is_lost_before_it_is_known_how_its_agent_ended(node):
    is_known = threading.Event()
    node.why_ended = lambda: is_known.wait(WAIT_S) and "its supervisor was killed"
    node.lose()
    assert "(node a: it has closed the connection)" in str(node.error())
    is_known.set()
    _until(lambda: "(node a: its supervisor was killed)" in str(node.error()))


def test_who_waits_for_an_answer_is_told_of_the_loss_and_why(node):
    node.why_ended = lambda: "its supervisor was killed"
    losing = threading.Timer(0.2, node.ours.close)
    losing.start()
    assert "(node a: its supervisor was killed)" in str(node.error())
    losing.join()


class Agents:
    """Agents that are no processes: each comes when it is started, but for those who stay away."""

    address = "127.0.0.1"

    def __init__(self, *stay_away):
        self.stay_away, self.connections, self.ports, self.ended = stay_away, {}, set(), {}

    def start(self, node, order):
        told = json.loads(order)
        self.ports.add(told["launcher"][1])
        if node not in self.stay_away:
            self.connections[node] = socket.create_connection(told["launcher"])
            self.connections[node].sendall(introduction(told["token"], node, "m", [0], {}))

        def why_ended():
            return None if node in self.connections else "it has stayed away"

        return SimpleNamespace(why_ended=why_ended, end=lambda wait_s: self.ended.update({node: wait_s}))


def test_an_agent_has_its_time_to_end_unless_its_node_is_lost():
    agents = Agents()
    with on_nodes(LAYOUT, "a test", agents) as nodes:
        agents.connections.pop("a").close()
        _until(lambda: nodes._nodes["a"].is_lost)
    assert agents.ended == {"a": LOST_END_S, "b": END_S}


def test_who_has_not_come_is_not_waited_for():
    agents = Agents("b")
    with (
        pytest.raises(MachineError, match="node b has not connected: it has stayed away"),
        on_nodes(LAYOUT, "a", agents),
    ):
        pass
    assert agents.ended == {"a": END_S, "b": LOST_END_S}


def test_each_launcher_listens_at_a_port_that_the_system_gives():
    first, second = Agents(), Agents()
    with on_nodes(LAYOUT, "a test", first), on_nodes(LAYOUT, "a test", second):
        pass
    assert len(first.ports) == len(second.ports) == 1 and not first.ports & second.ports
    assert min(first.ports | second.ports) >= 1024
