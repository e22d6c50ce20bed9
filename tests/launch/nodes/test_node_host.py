"""What a supervisor reports about the GMIs on its host."""

import errno
from types import SimpleNamespace

import pytest

from gmi_drl.launch import close_environments
from gmi_drl.launch.close_environments import Closing
from gmi_drl.launch.nodes.node_host import Host
from gmi_drl.launch.nodes.remote_gmi import RemoteGMI
from gmi_drl.roles.launcher.connection import decode, encode
from gmi_drl.roles.launcher.protocol import Failed, StoreFile, parse_message_to_launcher


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
