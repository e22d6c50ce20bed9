import socket
import threading
from pathlib import Path

import pytest

from gmi_drl.errors import GmiError, MachineError
from gmi_drl.roles.launcher import remote_checkpoint_store
from gmi_drl.roles.launcher.connection import MAX_BYTES, LauncherConnection, decode, encode, socket_pair
from gmi_drl.roles.launcher.protocol import Stop, StoreCommand, Stored, StoreFile, parse_message_to_launcher
from gmi_drl.roles.launcher.remote_checkpoint_store import RemoteCheckpointStore


@pytest.fixture
def remote(tmp_path):
    """A store, and the messages of it that a launcher got, which answers each, after another message."""
    ours, theirs = socket_pair()
    (tmp_path / "checkpoints").mkdir()
    received, store = [], RemoteCheckpointStore(tmp_path / "checkpoints", LauncherConnection(theirs.detach()))

    def answer():
        while data := ours.recv(MAX_BYTES):
            received.append(parse_message_to_launcher(decode(data)))
            for message in (Stop(), Stored()):
                ours.send(encode(message))

    launcher = threading.Thread(target=answer, daemon=True)
    launcher.start()
    yield store, received
    ours.shutdown(socket.SHUT_RDWR)
    launcher.join()
    ours.close()


def test_files_and_commands_are_sent(remote, tmp_path):
    store, received = remote
    store.keep(tmp_path / "checkpoints" / ".000001.draft" / "gmi-0.safetensors")
    store.keep(tmp_path / "model_1.pt")
    store.require_room(1, most=3)
    store.commit(1, {"env_steps": 8}, kept=2)
    store.drop_drafts()
    assert received == [
        StoreFile(str(tmp_path / "checkpoints/.000001.draft/gmi-0.safetensors")),
        StoreFile(str(tmp_path / "model_1.pt")),
        StoreCommand("require_room", {"iteration": 1, "most": 3, "growth": 0}),
        StoreCommand("commit", {"iteration": 1, "facts": {"env_steps": 8}, "kept": 2}),
        StoreCommand("drop_drafts", {}),
    ]


def test_room_on_its_own_host_is_checked_there(remote):
    store, received = remote
    store.require_own_room(1)
    with pytest.raises(MachineError, match=r"are free, the parts of a checkpoint .* need 1048576.0 TiB"):
        store.require_own_room(2**60)
    assert received == []


def test_a_launcher_that_does_not_store_is_an_error(tmp_path, monkeypatch):
    monkeypatch.setattr(remote_checkpoint_store, "STORE_S", 0.0)
    ours, theirs = socket_pair()
    with ours, pytest.raises(GmiError, match="the launcher has not stored a within 0 s"):
        RemoteCheckpointStore(tmp_path / "checkpoints", LauncherConnection(theirs.detach())).keep(Path(tmp_path / "a"))
