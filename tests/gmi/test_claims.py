import os
import subprocess
import sys

import pytest

from gmi_drl.errors import LayoutMismatchError, MachineError
from gmi_drl.gmi import claim

HOLDER = """
import sys
from gmi_drl.gmi import claim
with claim(['core-0'], 'runs/other'):
    print('held', flush=True)
    sys.stdin.read()
"""


@pytest.fixture(autouse=True)
def own_claims(tmp_path, monkeypatch):
    monkeypatch.setenv("GMI_DRL_CLAIMS", str(tmp_path))


@pytest.fixture
def holder():
    process = subprocess.Popen([sys.executable, "-c", HOLDER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "held\n"
    yield process
    process.kill()
    process.communicate()


def test_a_core_in_use_is_refused_and_its_owner_named(holder):
    with (
        pytest.raises(LayoutMismatchError, match=rf"core-0 is in use by process {holder.pid} \(runs/other\)"),
        claim(["core-0"], "me"),
    ):
        pass
    with claim(["core-1"], "me"):
        pass


def test_a_claim_dies_with_its_process(holder):
    holder.kill()
    holder.wait()
    with claim(["core-0"], "me"):
        pass


def test_a_folder_that_others_could_have_made_is_refused(tmp_path, monkeypatch):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    for name in ("link", "open"):
        monkeypatch.setenv("GMI_DRL_CLAIMS", str(tmp_path / name))
        with pytest.raises(MachineError, match="is not a folder that only you can write"), claim(["core-0"], "me"):
            pass
    monkeypatch.setenv("GMI_DRL_CLAIMS", "/proc/nope")
    with pytest.raises(MachineError, match="set GMI_DRL_CLAIMS"), claim(["core-0"], "me"):
        pass


def test_nothing_stays_claimed_after_a_refusal(holder):
    with pytest.raises(LayoutMismatchError), claim(["core-1", "core-0"], "me"):
        pass
    with claim(["core-1"], "me"):
        assert os.listdir(os.environ["GMI_DRL_CLAIMS"])
