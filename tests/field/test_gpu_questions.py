"""The questions need a GPU; here how they are asked, and what can be asked of cores."""

import os
import signal
import subprocess
import sys
from contextlib import nullcontext

import gpu_question_clients
import gpu_question_gmis
import gpu_question_helpers
import gpu_questions
import pytest
import stages
import torch
from cleanup import MARK
from conftest import two_cores
from scripts import BENCHMARKS, is_alive, put_fake_mps, run, wait_until
from stages import REHEARSAL

from gmi_drl.errors import MachineError
from gmi_drl.profiler.session import Measured

FAILING_ROLE = """
import time
from gmi_drl import DRL_role

class Reducer(DRL_role):
    def GMI_run(self, groups):
        time.sleep(600 * self.GMI_id)
        print('{"seen": 1}', flush=True)
        raise ValueError("broken")
"""
ROLES_ON_CORES = """
import torch
from gpu_question_probe import AttachedProbe
from gpu_question_reducer import Reducer as Real
from gmi_drl.roles.manager import GMI_manager

GMI_manager.device = property(lambda self: torch.device("cpu"))

class Reducer(Real):
    def GMI_run(self, groups):
        super().GMI_run({"MPR-shm": groups["MPR-shm"]})
"""
"""The questions' own, for a GPU whose CUDA is a stand-in, which computes nothing."""
no_gpu = pytest.mark.skipif(torch.cuda.is_available(), reason="is about machines without a GPU")


def rehearsed(folder, *question):
    """What a question tells where there is no GPU."""
    ended = run("gpu_questions", *question, env=os.environ | {MARK: str(folder), REHEARSAL: "1"})
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return stages.facts(ended.stdout)[0]


@no_gpu
def test_the_driver_is_asked_and_the_program_of_mps_looked_for(tmp_path, monkeypatch):
    """Where it is not in PATH, which takes many seconds: tests/field/test_stages.py."""
    put_fake_mps(tmp_path)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    saw = rehearsed(tmp_path, "machine")
    assert "nvidia-smi" in saw["nvidia_smi"] and saw["mps_control"] == str(tmp_path / stages.MPS_CONTROL)


@no_gpu
def test_what_is_missing_in_a_cache_of_kernels_is_told_and_is_no_error(tmp_path, monkeypatch):
    monkeypatch.setenv("WARP_CACHE_PATH", str(tmp_path))
    told = rehearsed(tmp_path, "kernels", "ball_balance")["kernels"]
    modules = int(told.split()[0])
    assert modules > 0 and told == f"{modules} modules, {modules} missing"


def test_a_loop_that_ends_on_the_device_is_asked_of_warp():
    pytest.importorskip("warp", reason="needs the extra [warp]")
    assert gpu_question_clients.counts_down("cpu")


@no_gpu
@two_cores
def test_training_is_measured_by_the_first_reduction_that_runs_and_by_every_way(tmp_path):
    saw = rehearsed(tmp_path, "sharing", "ant", "16", "2")
    assert saw["mps"].startswith("no MPS binary")
    for way in ("plain", "mps", "mps, capped"):
        assert saw[f"{way} k=2 IPC"].startswith("failed: ValidationError"), "there is no GPU"
        assert set(saw[f"{way} k=2 MPR-shm"]) == {"16", "mps_clients"}
        assert saw[f"{way} k=2 MPR-shm"]["16"]["steps_per_second"] > 0


def test_solo_is_measured_for_long_at_its_two_best_and_a_size_that_fails_costs_no_other(monkeypatch, capsys):
    windows, closed = [], []

    class OneOfThem:
        def measure(self, num_env, seconds):
            windows.append((num_env, seconds))
            if num_env == 64:
                raise MachineError("no room")
            speed = {8: 5.0, 16: 9.0, 32: 7.0}[num_env]
            return Measured(num_env, 3, 1.0, speed, 0.0, 0, 0, {})

    class Fake(dict):
        close = closed.append

    monkeypatch.setattr(gpu_question_gmis, "probes", lambda *layout: nullcontext(Fake({1: OneOfThem()})))
    gpu_question_gmis.solo("ant", "8,16,32,64", "3")
    assert windows == [(8, 0.5), (16, 0.5), (32, 0.5), (64, 0.5), (16, 3.0), (32, 3.0)] and closed == [1]
    assert '"16 for 3 s"' in capsys.readouterr().out


@no_gpu
@two_cores
def test_a_case_of_the_bench_is_rehearsed_where_it_is_not_meant_to_run(tmp_path):
    told = rehearsed(tmp_path, "case", "green_contexts")
    assert list(told) == ["one simulator with all environments", "two, one after the other"]
    assert all(speed > 0 for speed in told.values())


@no_gpu
@two_cores
def test_our_own_reductions_are_what_is_timed(tmp_path):
    saw = rehearsed(tmp_path, "latency")
    for told in (saw["plain k=2"], saw["mps k=2"]):
        for method in ("MPR-shm", "MPR-gloo"):
            assert [int(count) for count in told[method]] == list(gpu_question_gmis.PARAMETERS)
            assert all(microseconds > 0 for microseconds in told[method].values())


@no_gpu
@two_cores
def test_a_reduction_that_fails_is_told_with_what_was_seen_before(tmp_path, monkeypatch):
    role = tmp_path / "failing.py"
    role.write_text(FAILING_ROLE)
    monkeypatch.setenv(MARK, str(tmp_path))
    monkeypatch.setattr(gpu_question_gmis, "REDUCER", role)
    told = gpu_question_gmis.reductions(2, "process")
    assert told["seen"] == 1 and "broken" in told["error"]


@pytest.fixture
def gmis_on_fakes(fake_mps, tmp_path, monkeypatch):
    """Questions 8 and 10 on a GPU and MPS that are stand-ins."""
    role = tmp_path / "on_cores.py"
    role.write_text(ROLES_ON_CORES)
    monkeypatch.setenv("PYTHONPATH", str(BENCHMARKS / "gpu_day"))
    monkeypatch.setenv(MARK, str(tmp_path))
    for name in ("REDUCER", "PROBE"):
        monkeypatch.setattr(gpu_question_gmis, name, role)
    return fake_mps


@two_cores
def test_reductions_under_mps_are_those_of_clients(gmis_on_fakes):
    assert dict(gpu_question_gmis.ways()) == {"plain": "process", "mps": "mps"}
    told = gpu_question_gmis.reductions(2, "mps")
    assert told["mps_clients"] == 2 and told["device"] == "cpu"
    assert all(told["MPR-shm"][str(numel)] > 0 for numel in gpu_question_gmis.PARAMETERS)
    assert len([line for line in gmis_on_fakes.log() if line.startswith("client ")]) == 2
    assert gmis_on_fakes.left() == []


def test_training_under_mps_is_that_of_a_client(gmis_on_fakes):
    told = gpu_question_gmis.speeds("ant", 1, [8], "mps", "none")
    assert told["mps_clients"] == 1 and told["8"]["steps_per_second"] > 0
    assert gmis_on_fakes.left() == []


@pytest.mark.parametrize(("served", "backend"), [(1, "mps"), (0, "mps"), (2, "process")])
def test_a_row_whose_clients_are_others_than_it_says_is_an_error(served, backend):
    with pytest.raises(RuntimeError, match=f"MPS serves {served} of 2 GMIs"):
        gpu_question_gmis.require_clients(served, 2, backend)


@two_cores
def test_each_number_of_parameters_has_a_bucket_of_its_own():
    whole, groups = gpu_question_gmis.every_reduction(gpu_question_gmis.layout(2, "process"))
    assert {name for some in groups.values() for name in some} == set(whole.groups)
    for method, some in groups.items():
        assert sorted(some.values()) == sorted(gpu_question_gmis.PARAMETERS)
        assert {whole.groups[name].reduction for name in some} == {method}


def test_clients_without_cuda_are_errors_unless_it_is_a_rehearsal(monkeypatch, capsys):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(sys, "argv", ["gpu_question_clients.py", "sms", "0", "1", "1"])
    monkeypatch.delenv(REHEARSAL, raising=False)
    assert gpu_question_clients.main() == 1
    monkeypatch.setenv(REHEARSAL, "1")
    assert gpu_question_clients.main() == 0
    assert capsys.readouterr().out.count("torch sees no CUDA device") == 2


def test_a_client_that_mps_does_not_serve_is_an_error(monkeypatch, capsys):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch, "ones", lambda *shape, device: None)
    monkeypatch.setattr(sys, "argv", ["gpu_question_clients.py", "sms", "0", "1", "1"])
    monkeypatch.setattr(gpu_question_clients, "has_daemon", lambda: True)
    monkeypatch.setattr(gpu_question_clients, "attached", lambda: False)
    assert gpu_question_clients.main() == 1 and "without MPS" in capsys.readouterr().out


@no_gpu
def test_clients_without_a_gpu_say_so(tmp_path):
    for question in ("green", "registration"):
        assert rehearsed(tmp_path, question) == {"obstacle": "torch sees no CUDA device"}


@pytest.mark.parametrize(("version", "is_asked"), [([2, 28, 9], False), ([2, 30, 7], True)])
def test_only_a_version_of_nccl_that_can_is_asked_for_several_ranks(monkeypatch, capsys, version, is_asked):
    kinds = []

    class Told:
        def told(self, seconds):
            return [{"nccl": version}]

    def start(kind, *arguments):
        kinds.append(kind)
        return Told()

    monkeypatch.setattr(gpu_questions, "start", start)
    monkeypatch.setattr(gpu_questions, "ways", lambda: [("plain", {})])
    gpu_questions.nccl()
    assert kinds == ["nccl_version", "nccl"][: 1 + is_asked]
    assert ("2.28.9 takes one rank per GPU, 2.30 is needed" in capsys.readouterr().out) is not is_asked


def test_a_daemon_of_ones_own_is_started_in_a_private_folder_and_quits(tmp_path, monkeypatch):
    put_fake_mps(tmp_path)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setenv(MARK, str(tmp_path))
    with gpu_question_helpers.mps() as found:
        pipes = tmp_path / os.path.basename(found["CUDA_MPS_PIPE_DIRECTORY"])
        assert pipes.stat().st_mode & 0o777 == 0o700
        assert wait_until(lambda: (pipes / "pid").exists() and (pipes / "pid").read_text())
        assert gpu_question_helpers.asked(found, "version") == "1.0"
    assert wait_until(lambda: not is_alive(int((pipes / "pid").read_text())))


def test_the_server_of_a_daemon_is_ready_before_the_first_client_comes(fake_mps, monkeypatch):
    monkeypatch.setenv(MARK, str(fake_mps.base))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "GPU-1")
    fake_mps.habit("not_ready", 3)
    with gpu_question_helpers.mps() as found:
        server = gpu_question_helpers.asked(found, "get_server_list")
        assert server.isdecimal() and gpu_question_helpers.asked(found, f"get_server_status {server}") == "ACTIVE"
    started, *_ = fake_mps.log()
    assert started.endswith("for GPU-1")


def test_no_daemon_survives_the_death_of_the_program(tmp_path):
    put_fake_mps(tmp_path, quits=False, stuck=True)
    environment = os.environ | {"PATH": f"{tmp_path}:{os.environ['PATH']}", "TMPDIR": str(tmp_path)}
    line = [sys.executable, BENCHMARKS / "gpu_day" / "gpu_day.py", "--rehearse", "--only", "question_1", "-o", tmp_path]
    victim = subprocess.Popen(line, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    assert wait_until(lambda: [file for file in tmp_path.glob("gmi-kept-*/mps-*/pid") if file.read_text()])
    (file,) = tmp_path.glob("gmi-kept-*/mps-*/pid")
    daemon = int(file.read_text())
    victim.send_signal(signal.SIGKILL)
    victim.wait()
    assert wait_until(lambda: not is_alive(daemon))
    assert wait_until(lambda: not list(tmp_path.glob("gmi-kept-*")))
