"""The questions need a GPU; here how they are asked, and what can be asked of cores."""

import json
import os
import signal
import subprocess
import sys

import first_light
import first_light_clients
import first_light_talk
import pytest
import torch
from conftest import two_cores
from keeper import MARK
from scripts import BENCHMARKS, is_alive, put_fake_mps, run, wait_until

FAILING_ROLE = """
import time
from gmi_drl import DRL_role

class Reducer(DRL_role):
    def GMI_run(self, counts):
        time.sleep(600 * self.GMI_id)
        print('{"seen": 1}', flush=True)
        raise ValueError("broken")
"""
no_gpu = pytest.mark.skipif(torch.cuda.is_available(), reason="is about machines without a GPU")


def rehearsed(number, folder, *more, **options):
    """What a question tells where there is no GPU."""
    output = folder / "answers.jsonl"
    ended = run("first_light", "--rehearse", "--only", number, "-o", output, *more, **options)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return json.loads(output.read_text())["saw"]


@no_gpu
def test_a_machine_without_a_gpu_is_refused_in_one_line(tmp_path):
    ended = run("first_light", "-o", tmp_path / "answers.jsonl")
    assert ended.returncode == 4 and ended.stdout == ""
    assert ended.stderr.startswith("first_light: the driver (NVML) tells of no GPU") and ended.stderr.count("\n") == 1
    assert not (tmp_path / "answers.jsonl").exists()


def test_there_are_ten_questions_and_all_have_their_turn():
    assert list(first_light.QUESTIONS) == sorted(first_light.ORDER) == list(range(1, 11))


def test_a_loop_that_ends_on_the_device_is_asked_of_warp():
    pytest.importorskip("warp", reason="needs the extra [warp]")
    assert first_light_clients.counts_down("cpu")


@no_gpu
@two_cores
def test_training_is_measured_plain_where_there_is_no_mps_binary(tmp_path):
    saw = rehearsed(10, tmp_path, "--totals", "16", "8")
    assert saw["mps"].startswith("no MPS binary")
    for size in (1, 2):
        assert set(saw[f"plain k={size}"]) == {"16", "8"}
        assert saw[f"plain k={size}"]["16"]["steps_per_second"] > 0


@no_gpu
@two_cores
def test_our_own_reductions_are_what_is_timed(tmp_path):
    told = rehearsed(8, tmp_path)["plain k=2"]
    for method in ("MPR-shm", "MPR-gloo"):
        assert [int(count) for count in told[method]] == first_light.PARAMETERS
        assert all(microseconds > 0 for microseconds in told[method].values())


@no_gpu
@two_cores
def test_a_reduction_that_fails_is_told_with_what_was_seen_before(tmp_path, monkeypatch):
    role = tmp_path / "failing.py"
    role.write_text(FAILING_ROLE)
    monkeypatch.setenv(MARK, str(tmp_path))
    monkeypatch.setattr(first_light, "REDUCER", role)
    told = first_light.reductions(2)
    assert told["seen"] == 1 and "broken" in told["error"]


@no_gpu
def test_clients_without_a_gpu_say_so(tmp_path):
    assert rehearsed(6, tmp_path) == {"obstacle": "torch sees no CUDA device"}


@pytest.mark.parametrize(("version", "is_asked"), [([2, 28, 9], False), ([2, 30, 7], True)])
def test_only_a_version_of_nccl_that_can_is_asked_for_several_ranks(monkeypatch, capsys, version, is_asked):
    kinds = []

    class Told:
        def told(self, seconds):
            return [{"nccl": version}]

    def start(kind, *arguments):
        kinds.append(kind)
        return Told()

    monkeypatch.setattr(first_light, "start", start)
    monkeypatch.setattr(first_light, "ways", lambda: [("plain", {})])
    first_light.nccl()
    assert kinds == ["nccl_version", "nccl"][: 1 + is_asked]
    assert ("2.28.9 takes one rank per GPU, 2.30 is needed" in capsys.readouterr().out) is not is_asked


def test_a_daemon_of_ones_own_is_started_in_a_private_folder_and_quits(tmp_path, monkeypatch):
    put_fake_mps(tmp_path)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setenv(MARK, str(tmp_path))
    with first_light_talk.mps() as found:
        pipes = tmp_path / os.path.basename(found["CUDA_MPS_PIPE_DIRECTORY"])
        assert pipes.stat().st_mode & 0o777 == 0o700
        assert wait_until(lambda: (pipes / "pid").exists() and (pipes / "pid").read_text())
        assert first_light_talk.asked(found, "version") == "1.0"
    assert wait_until(lambda: not is_alive(int((pipes / "pid").read_text())))


def test_no_daemon_survives_the_death_of_the_program(tmp_path):
    put_fake_mps(tmp_path, quits=False, stuck=True)
    environment = os.environ | {"PATH": f"{tmp_path}:{os.environ['PATH']}", "TMPDIR": str(tmp_path)}
    line = [sys.executable, BENCHMARKS / "first_light.py", "--rehearse", "--only", "1", "-o", tmp_path / "a.jsonl"]
    victim = subprocess.Popen(line, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    assert wait_until(lambda: [file for file in tmp_path.glob("gmi-kept-*/mps-*/pid") if file.read_text()])
    (file,) = tmp_path.glob("gmi-kept-*/mps-*/pid")
    daemon = int(file.read_text())
    victim.send_signal(signal.SIGKILL)
    victim.wait()
    assert wait_until(lambda: not is_alive(daemon))
    assert wait_until(lambda: not list(tmp_path.glob("gmi-kept-*")))
