"""What a supervisor reports about the GMIs on its host."""

import errno
import os
from selectors import DefaultSelector
from types import SimpleNamespace

import pytest
from conftest import open_descriptors

from gmi_drl.launch import close_environments
from gmi_drl.launch.close_environments import Closing
from gmi_drl.launch.nodes.node_host import Host
from gmi_drl.launch.nodes.remote_gmi import RemoteGMI
from gmi_drl.roles.launcher.connection import decode, encode
from gmi_drl.roles.launcher.protocol import Failed, StoreFile, parse_message_to_launcher
from gmi_drl.roles.launcher.resources import Resources


def _full(gmi_id, file):
    raise OSError(errno.ENOSPC, "no space left")


@pytest.mark.filterwarnings("error")
def test_a_gmi_whose_node_fails_in_its_place_is_not_waited_for_and_asked_to_end(tmp_path, monkeypatch):
    monkeypatch.setattr(close_environments, "CLOSE_S", 0.2)
    monkeypatch.setattr(close_environments, "EXIT_S", 0.1)
    to_node = []
    gmi = RemoteGMI(3, "a", 7, tmp_path / "log", lambda message: to_node.append(message["type"]))
    hears = {"said": gmi.add_message, "connection_ended": gmi.add_message}
    host = Host("a", "127.0.0.1", None, lambda message, data=b"": hears[message["type"]](data))
    host._copy = SimpleNamespace(send_file=_full)
    host._forward_one(3, None, encode(StoreFile("shard")))  # the GMI waits for `Stored` now
    word = parse_message_to_launcher(decode(gmi.receive()))
    assert word == Failed("its file cannot be sent: [Errno 28] no space left", 4, blames_peer=False)
    Closing("ant").wait({3: gmi})
    assert to_node == ["ask_to_end"]
    gmi.close()


class Process:
    """A `GMIProcess` without a process. It has a message under way when it ends."""

    def __init__(self, resources, pid):
        self.resources, self.pid, self.is_open = resources, pid, True
        self.connection_fd, theirs = os.pipe()
        self.exit_fd, exit_end = os.pipe()
        self._theirs = theirs, exit_end

    def end(self):
        theirs, self._theirs = self._theirs, ()
        for descriptor in theirs:
            os.close(descriptor)

    def close(self):
        self.is_open = False
        for descriptor in (self.connection_fd, self.exit_fd):
            os.close(descriptor)


def test_a_gmi_that_is_started_again_inherits_the_same_and_is_not_taken_for_the_one_before(tmp_path):
    before, started = open_descriptors(), []
    memory, selector = os.memfd_create("channels"), DefaultSelector()
    host = Host("a", "127.0.0.1", selector, None)
    host._ids, host._instances = (2, 3), SimpleNamespace(environment=lambda index: {})
    host._resources = {3: Resources(channels=memory)}
    host._sharing.callback(os.close, memory)

    def start(order, environment, log, resources, module):
        started.append(Process(resources, pid=len(started)))
        return started[-1]

    host._starter = start
    names = ("layout", "run_folder", "rendezvous_folder")

    def ask(**message):
        return host.do(message, b"")

    def ask_to_start():
        order = {"gmi": 3} | {name: str(tmp_path) for name in names}
        return ask(type="start", order=order, log=str(tmp_path / "log"), environment={})

    assert ask_to_start() == {"type": "started", "gmi": 3, "pid": 0}
    ask(type="settle", restartable=[3, 7])
    assert ask(type="end", gmi=3) == {"type": "gone", "gmi": 3}
    assert selector.select(0) == [], "nothing of it is reported any more"
    assert ask_to_start() == {"type": "started", "gmi": 3, "pid": 1}
    first, second = started
    assert not first.is_open and [key.fileobj for key in selector.get_map().values()] == [
        second.connection_fd,
        second.exit_fd,
    ]
    assert os.readlink(f"/proc/self/fd/{second.resources.channels}").startswith("/memfd:channels")
    second.end()
    second.close()
    host._gmis.clear()
    host.close()
    selector.close()
    assert open_descriptors() == before
