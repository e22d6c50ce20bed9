import os
import random
import subprocess
import sys
from contextlib import ExitStack
from threading import Timer

import pytest

from gmi_drl.errors import LayoutMismatchError, MachineError
from gmi_drl.gmi import claim, claims
from gmi_drl.gmi.claims import Shared

HOLDER = """
import sys
from gmi_drl.gmi import claim
with claim(['core-0'], 'runs/other'):
    print('held', flush=True)
    sys.stdin.read()
"""

CLAIMANT = """
import sys
from gmi_drl.errors import LayoutMismatchError
from gmi_drl.gmi import claim, claims
from gmi_drl.gmi.claims import Shared
claims.PATIENCE_S = 0.05
for line in sys.stdin:
    try:
        with claim(line.split(), 'a claimant'):
            print('held', flush=True)
            sys.stdin.readline()
    except LayoutMismatchError as error:
        print(error, flush=True)
        sys.stdin.readline()
"""
PIPES = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True, "bufsize": 1}


@pytest.fixture(autouse=True)
def own_claims(tmp_path, monkeypatch):
    monkeypatch.setenv("GMI_DRL_CLAIMS", str(tmp_path))


@pytest.fixture
def holder():
    process = subprocess.Popen([sys.executable, "-c", HOLDER], **PIPES)
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


def test_a_link_in_place_of_a_lock_is_refused_and_leads_nowhere(tmp_path, monkeypatch):
    monkeypatch.setenv("GMI_DRL_CLAIMS", str(tmp_path / "claims"))
    (tmp_path / "claims").mkdir(mode=0o700)
    (tmp_path / "claims" / "core-0").symlink_to(tmp_path / "mine")
    (tmp_path / "mine").write_text("precious")
    with (
        pytest.raises(MachineError, match=r"claims/core-0 cannot be locked \(.*links\): remove it"),
        claim(["core-0"], "me"),
    ):
        pass
    assert (tmp_path / "mine").read_text() == "precious"


def test_nothing_stays_claimed_after_a_refusal(holder):
    with pytest.raises(LayoutMismatchError), claim(["core-1", "core-0"], "me"):
        pass
    with claim(["core-1"], "me"):
        assert os.listdir(os.environ["GMI_DRL_CLAIMS"])


def test_of_several_that_start_together_exactly_one_gets_the_cores():
    devices = [f"core-{core}" for core in range(8)]
    with ExitStack() as life:
        claimants = [life.enter_context(subprocess.Popen([sys.executable, "-c", CLAIMANT], **PIPES)) for _ in range(3)]
        life.callback(lambda: [claimant.kill() for claimant in claimants])
        for number in range(40):
            for claimant in claimants:
                random.Random(number).shuffle(devices)
                claimant.stdin.write(" ".join(devices) + "\n")
            answers = [claimant.stdout.readline() for claimant in claimants]
            assert answers.count("held\n") == 1, answers
            assert sum("in use by" in answer for answer in answers) == 2, answers
            for claimant in claimants:
                claimant.stdin.write("go on\n")


def test_a_run_that_is_just_ending_is_waited_for(holder, monkeypatch):
    monkeypatch.setattr(claims, "PATIENCE_S", 60.0)
    ending = Timer(0.3, holder.kill)
    ending.start()
    with claim(["core-0"], "me"):
        ending.join()


def test_a_device_that_several_share_names_none_of_them(monkeypatch):
    monkeypatch.setattr(claims, "PATIENCE_S", 0.05)
    with claim(["gpu-0"], "one that is gone"):
        pass
    with claim([Shared("gpu-0")], "outer"):
        with claim([Shared("gpu-0")], "inner"):
            pass
        assert claims.descriptor_of("gpu-0") > 0, "still held by the outer one"
        with pytest.raises(LayoutMismatchError, match="gpu-0 is in use by other processes"), claim(["gpu-0"], "alone"):
            pass
    with pytest.raises(KeyError):
        claims.descriptor_of("gpu-0")


def test_a_claim_on_a_full_disk_holds_and_is_not_described(monkeypatch):
    def full(*words):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "pwrite", full)
    with claim(["core-0"], "a run"):
        told = subprocess.run([sys.executable, "-c", CLAIMANT], input="core-0\n\n", capture_output=True, text=True)
    assert told.stdout.startswith("core-0 is in use by other processes: wait")
