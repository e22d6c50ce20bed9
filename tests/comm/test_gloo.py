import pytest

from gmi_drl.comm.gloo import GlooReduction
from gmi_drl.errors import MachineError, PeerSilentError


def test_a_folder_that_is_not_there(tmp_path):
    with pytest.raises(MachineError, match=r"nowhere.*choose a folder"):
        GlooReduction(0, 2, tmp_path / "nowhere" / "store", hang_s=3)


def test_a_peer_that_never_comes_is_silent(tmp_path):
    with pytest.raises(PeerSilentError, match="rank 1"):
        GlooReduction(0, 2, tmp_path / "store", hang_s=0.1)
