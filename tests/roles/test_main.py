import io
import subprocess
import sys

import psutil
import pytest
import torch
from conftest import environment

from gmi_drl.errors import MachineError, PeerDiedError, PeerSilentError, UsageError
from gmi_drl.roles.launcher.protocol import Failed
from gmi_drl.roles.main import describe, load_role


def test_a_role_is_loaded_from_a_file_or_a_module(tmp_path):
    (tmp_path / "mine.py").write_text("class Mine:\n    value = 7\n")
    assert load_role(f"{tmp_path}/mine.py:Mine").value == 7
    assert load_role("gmi_drl.roles.training.holistic:Holistic").__name__ == "Holistic"


def test_only_for_a_role_that_lies_there_is_the_working_directory_imported_from(tmp_path, monkeypatch):
    (tmp_path / "a_role_of_mine.py").write_text("class Mine:\n    value = 7\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", [folder for folder in sys.path if folder])
    load_role("gmi_drl.roles.training.holistic:Holistic")
    assert str(tmp_path) not in sys.path
    assert load_role("a_role_of_mine:Mine").value == 7 and sys.path[-1] == str(tmp_path)


@pytest.mark.parametrize("location", ["missing.py:Mine", "no.such.module:Mine", "gmi_drl.units:Mine", "Mine"])
def test_a_role_that_cannot_be_loaded_is_named(location):
    with pytest.raises(UsageError, match=r"cannot be loaded, expected FILE\.py:CLASS"):
        load_role(location)


def test_errors_become_messages():
    assert describe(MachineError("full")) == Failed("full", exit_code=4, blames_peer=False)
    assert describe(PeerDiedError("rank 1")) == Failed("rank 1", 1, blames_peer=True, peer_ended=True)
    assert describe(PeerSilentError("rank 1")) == Failed("rank 1", 1, blames_peer=True)
    assert describe(ZeroDivisionError("oops")).message == "ZeroDivisionError: oops"


SLEEPER = """
import sys, time
from gmi_drl.roles.main import die_with
die_with(int(sys.argv[1]))
print(flush=True)
time.sleep(600)
"""
LAUNCHER = f"""
import os, subprocess, sys
child = subprocess.Popen([sys.executable, "-c", {SLEEPER!r}, str(os.getpid())], stdout=subprocess.PIPE)
child.stdout.readline()
print(child.pid, flush=True)
sys.stdin.readline()
"""


def test_a_process_dies_with_its_launcher_though_it_sleeps():
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "env": environment()}
    with subprocess.Popen([sys.executable, "-c", LAUNCHER], **pipes) as launcher:
        sleeper = psutil.Process(int(launcher.stdout.readline()))
        launcher.kill()
    _, left = psutil.wait_procs([sleeper], timeout=60)
    for process in left:
        process.kill()
    assert not left


def test_a_process_whose_launcher_has_died_already_does_not_begin():
    ended = subprocess.run([sys.executable, "-c", SLEEPER, "1"], env=environment(), stdout=subprocess.PIPE, timeout=60)
    assert ended.returncode == 1 and ended.stdout == b""


@pytest.mark.parametrize("error", [torch.OutOfMemoryError("Tried to allocate 2.00 GiB"), MemoryError("2.00 GiB")])
def test_a_lack_of_memory_has_a_message_with_the_remedy(error):
    told = describe(error)
    assert told.message.startswith("out of memory (") and "2.00 GiB" in told.message and "--num-env" in told.message
    assert told.exit_code == 4 and not told.blames_peer


def test_what_fails_for_lack_of_memory_is_told_as_that():
    class Full(io.BytesIO):
        def write(self, content):
            if self.tell() > 2000:
                raise MemoryError
            return super().write(content)

    with pytest.raises(RuntimeError) as failed:  # torch tells of its own file alone
        torch.save([torch.zeros(1000), torch.zeros(1000)], Full())
    told = describe(failed.value)
    assert told.message.startswith("out of memory (RuntimeError: ") and "--num-env" in told.message
    assert told.exit_code == 4

    with pytest.raises(UsageError) as refused:
        try:
            raise MemoryError
        except MemoryError as error:
            raise UsageError("batch is too large") from error
    assert describe(refused.value).message == "batch is too large"

    with pytest.raises(ValueError, match="odd") as other:
        try:
            raise MemoryError
        except MemoryError:
            raise ValueError("odd") from None
    assert describe(other.value).message == "ValueError: odd"
