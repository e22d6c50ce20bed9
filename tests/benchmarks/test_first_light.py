"""The questions need a GPU; here how they are asked, and what can be asked of cores."""

import json
import os
import signal
import subprocess
import sys

import first_light
import first_light_clients
import first_light_gmis
import first_light_talk
import pytest
import torch
from conftest import two_cores
from keeper import MARK
from scripts import BENCHMARKS, is_alive, put_fake_mps, run, wait_until
from stages import REHEARSAL

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
from first_light_probe import AttachedProbe
from first_light_reducer import Reducer as Real
from gmi_drl.roles.manager import GMI_manager

GMI_manager.device = property(lambda self: torch.device("cpu"))

class Reducer(Real):
    def GMI_run(self, groups):
        super().GMI_run({"MPR-shm": groups["MPR-shm"]})
"""
"""The questions' own, for a GPU whose CUDA is a stand-in, which computes nothing."""
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
        assert set(saw[f"plain k={size}"]) == {"16", "8", "mps_clients"}
        assert saw[f"plain k={size}"]["16"]["steps_per_second"] > 0


@no_gpu
@two_cores
def test_our_own_reductions_are_what_is_timed(tmp_path):
    told = rehearsed(8, tmp_path)["plain k=2"]
    for method in ("MPR-shm", "MPR-gloo"):
        assert [int(count) for count in told[method]] == list(first_light_gmis.PARAMETERS)
        assert all(microseconds > 0 for microseconds in told[method].values())


@no_gpu
@two_cores
def test_a_reduction_that_fails_is_told_with_what_was_seen_before(tmp_path, monkeypatch):
    role = tmp_path / "failing.py"
    role.write_text(FAILING_ROLE)
    monkeypatch.setenv(MARK, str(tmp_path))
    monkeypatch.setattr(first_light_gmis, "REDUCER", role)
    told = first_light_gmis.reductions(2, "process")
    assert told["seen"] == 1 and "broken" in told["error"]


@pytest.fixture
def gmis_on_fakes(fake_mps, tmp_path, monkeypatch):
    """Questions 8 and 10 on a GPU and MPS that are stand-ins."""
    role = tmp_path / "on_cores.py"
    role.write_text(ROLES_ON_CORES)
    monkeypatch.setenv("PYTHONPATH", str(BENCHMARKS))
    monkeypatch.setenv(MARK, str(tmp_path))
    for name in ("REDUCER", "PROBE"):
        monkeypatch.setattr(first_light_gmis, name, role)
    return fake_mps


@two_cores
def test_reductions_under_mps_are_those_of_clients(gmis_on_fakes):
    assert dict(first_light_gmis.ways()) == {"plain": "process", "mps": "mps"}
    told = first_light_gmis.reductions(2, "mps")
    assert told["mps_clients"] == 2 and told["device"] == "cpu"
    assert all(told["MPR-shm"][str(numel)] > 0 for numel in first_light_gmis.PARAMETERS)
    assert len([line for line in gmis_on_fakes.log() if line.startswith("client ")]) == 2
    assert gmis_on_fakes.left() == []


def test_training_under_mps_is_that_of_a_client(gmis_on_fakes):
    told = first_light_gmis.speeds(1, [8], "mps")
    assert told["mps_clients"] == 1 and told["8"]["steps_per_second"] > 0
    assert gmis_on_fakes.left() == []


@pytest.mark.parametrize(("served", "backend"), [(1, "mps"), (0, "mps"), (2, "process")])
def test_a_row_whose_clients_are_others_than_it_says_is_an_error(served, backend):
    with pytest.raises(RuntimeError, match=f"MPS serves {served} of 2 GMIs"):
        first_light_gmis.require_clients(served, 2, backend)


@two_cores
def test_each_number_of_parameters_has_a_bucket_of_its_own():
    whole, groups = first_light_gmis.every_reduction(first_light_gmis.layout(2, "process"))
    assert {name for some in groups.values() for name in some} == set(whole.groups)
    for method, some in groups.items():
        assert sorted(some.values()) == sorted(first_light_gmis.PARAMETERS)
        assert {whole.groups[name].reduction for name in some} == {method}


def test_clients_without_cuda_are_errors_unless_it_is_a_rehearsal(monkeypatch, capsys):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(sys, "argv", ["first_light_clients.py", "sms", "0", "1", "1"])
    monkeypatch.delenv(REHEARSAL, raising=False)
    assert first_light_clients.main() == 1
    monkeypatch.setenv(REHEARSAL, "1")
    assert first_light_clients.main() == 0
    assert capsys.readouterr().out.count("torch sees no CUDA device") == 2


def test_a_client_that_mps_does_not_serve_is_an_error(monkeypatch, capsys):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch, "ones", lambda *shape, device: None)
    monkeypatch.setattr(sys, "argv", ["first_light_clients.py", "sms", "0", "1", "1"])
    monkeypatch.setattr(first_light_clients, "has_daemon", lambda: True)
    monkeypatch.setattr(first_light_clients, "attached", lambda: False)
    assert first_light_clients.main() == 1 and "without MPS" in capsys.readouterr().out


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


def test_the_server_of_a_daemon_is_ready_before_the_first_client_comes(fake_mps, monkeypatch):
    monkeypatch.setenv(MARK, str(fake_mps.base))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "GPU-1")
    fake_mps.habit("not_ready", 3)
    with first_light_talk.mps() as found:
        server = first_light_talk.asked(found, "get_server_list")
        assert server.isdecimal() and first_light_talk.asked(found, f"get_server_status {server}") == "ACTIVE"
    started, *_ = fake_mps.log()
    assert started.endswith("for GPU-1")


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
