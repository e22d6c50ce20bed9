import socket
import threading
from pathlib import Path

import pytest

from gmi_drl.errors import GmiError, MachineError
from gmi_drl.roles.launcher import remote_checkpoint_store
from gmi_drl.roles.launcher.connection import MAX_BYTES, LauncherConnection, decode, encode, line_pair
from gmi_drl.roles.launcher.protocol import AtHome, Keep, Kept, Stop, said_by_gmi
from gmi_drl.roles.launcher.remote_checkpoint_store import RemoteCheckpointStore


@pytest.fixture
def far(tmp_path):
    """A home, and what a launcher has heard of it, which answers each word; before it, it says something else."""
    ours, theirs = line_pair()
    (tmp_path / "checkpoints").mkdir()
    heard, home = [], RemoteCheckpointStore(tmp_path / "checkpoints", LauncherConnection(theirs.detach()))

    def answer():
        while data := ours.recv(MAX_BYTES):
            heard.append(said_by_gmi(decode(data)))
            for word in (Stop(), Kept()):
                ours.send(encode(word))

    launcher = threading.Thread(target=answer, daemon=True)
    launcher.start()
    yield home, heard
    ours.shutdown(socket.SHUT_RDWR)
    launcher.join()
    ours.close()


def test_files_are_named_within_the_run_folder_and_conclusions_said(far, tmp_path):
    home, heard = far
    home.keep(tmp_path / "checkpoints" / ".000001.draft" / "gmi-0.safetensors")
    home.keep(tmp_path / "model_1.pt")
    home.require_room(1, more=3)
    home.commit(1, {"env_steps": 8}, kept=2)
    home.drop_drafts()
    assert heard == [
        Keep("checkpoints/.000001.draft/gmi-0.safetensors"),
        Keep("model_1.pt"),
        AtHome("require_room", {"iteration": 1, "more": 3}),
        AtHome("commit", {"iteration": 1, "facts": {"env_steps": 8}, "kept": 2}),
        AtHome("drop_drafts", {}),
    ]


def test_the_disk_of_its_own_host_is_asked_here(far):
    home, heard = far
    home.require_own_room(1)
    with pytest.raises(MachineError, match=r"are free, the parts of a checkpoint .* need 1048576.0 TiB"):
        home.require_own_room(2**60)
    assert heard == []


def test_a_launcher_that_does_not_keep_is_an_error(tmp_path, monkeypatch):
    monkeypatch.setattr(remote_checkpoint_store, "KEEP_S", 0.0)
    ours, theirs = line_pair()
    with ours, pytest.raises(GmiError, match="the launcher has not kept a within 0 s"):
        RemoteCheckpointStore(tmp_path / "checkpoints", LauncherConnection(theirs.detach())).keep(Path(tmp_path / "a"))
