"""A plan for this machine is one that it can run, or says what it lacks; a start that is refused leaves nothing."""

import json
from pathlib import Path

import pytest
from conftest import two_cores

from gmi_drl.cli.layouts import make_layout
from gmi_drl.cli.train.checks import check
from gmi_drl.config.run_config import default_config
from gmi_drl.files import load_yaml
from gmi_drl.gmi import allowed_cores, claim
from gmi_drl.gmi.inventory import this_node
from gmi_drl.hardware.speeds import OF_CORES
from gmi_drl.launch.job import resolve
from gmi_drl.layout.layout import Layout
from gmi_drl.profiler.speeds import remember
from gmi_drl.run.folder import RunFolder
from gmi_drl.templates import TCG_EX
from gmi_drl.templates.cost import UNTRIED
from gmi_drl.workload import TASK_SPECS
from tests.gmi.nvml.fake import FakeGpu

H200 = "NVIDIA H200"


@pytest.fixture
def one_gpu(fake_nvml, monkeypatch, tmp_path):
    """A GPU, without a control program of MPS."""
    fake_nvml.add(FakeGpu(name=H200))
    monkeypatch.setenv("PATH", str(tmp_path))
    return fake_nvml


def points(*measured):
    """`(GMIs, backend, speed)`"""
    known = [
        {"gmis_per_gpu": gmis, "num_env": 64, "backend": backend, "model": H200, "runnable": True}
        | {"steps_per_second": speed, "memory_bytes": 2**30}
        for gmis, backend, speed in measured
    ]
    return {"schema": "gmi-drl/profile/2", "task": "ant", "learner": "ppo", "node": "there", "points": known}


def test_points_by_what_this_machine_cannot_do_are_left_out_with_the_reason(one_gpu, command_line, tmp_path):
    measured = points((1, "process", 5.0), (2, "process", 4.0), (2, "mps", 9.0))
    (tmp_path / "points.json").write_text(json.dumps(measured))
    code, out, err = command_line("plan", "--profile", "points.json")
    assert code == 0 and err == "" and load_yaml(Layout, tmp_path / "layout.yaml").backend == "process"
    assert "backend mps is left out, it cannot be had here: nvidia-cuda-mps-control" in " ".join(out.split())


def test_a_layout_that_was_asked_for_and_cannot_run_now_says_what_is_lacking(one_gpu, command_line):
    code, _, err = command_line("plan", "--budget", 0, "--backend", "mps")
    assert code == 0 and "this machine cannot run that layout as it is now: nvidia-cuda-mps-control is not on" in err


@two_cores
def test_gmis_that_nobody_has_measured_sum_on_their_gpu_which_is_told_and_else_as_was_measured(
    one_gpu, command_line, tmp_path
):
    def reduction(path="layout.yaml"):
        return load_yaml(Layout, tmp_path / path).groups["trainers"].reduction

    code, out, err = command_line("plan", "--budget", 0, "--gmis-per-gpu", 2)
    assert code == 0 and reduction() == "IPC" and UNTRIED in " ".join(out.replace("│", " ").split()), out + err
    remember(this_node(), "process", OF_CORES)  # memory of this GPU could not be mapped
    code, out, _ = command_line("plan", "--budget", 0, "--gmis-per-gpu", 2)
    assert code == 0 and reduction() == "MPR-shm" and "by measured speeds" in out
    assert make_layout("ant", 8, 2, TCG_EX).groups["trainers"].reduction == "MPR-shm"
    by_mig = make_layout("ant", 8, 2, TCG_EX, "mig")
    assert (by_mig.backend, by_mig.groups["trainers"].reduction) == ("mig", "MPR-shm")
    assert make_layout("ant", 8, 2, TCG_EX, "mps").groups["trainers"].reduction == "IPC", "of MPS nothing is known"


@two_cores
@pytest.mark.parametrize("has_run_here", [False, True])
def test_a_training_that_sums_untried_on_its_gpu_says_so_until_it_has_run(has_run_here, one_gpu, capsys):
    layout, config = make_layout("ant", 8, 2, TCG_EX), default_config(TASK_SPECS["ant"])
    folder = RunFolder(Path("run"))
    check(resolve(layout, config, folder), "local", apply_mig=False, has_run_here=has_run_here)
    assert (UNTRIED in capsys.readouterr().err) is not has_run_here
    groups = {name: group.model_copy(update={"reduction": "MPR-shm"}) for name, group in layout.groups.items()}
    edited = resolve(layout.model_copy(update={"groups": groups}), config, folder)
    check(edited, "local", apply_mig=False, has_run_here=has_run_here)
    assert UNTRIED not in capsys.readouterr().err, "its file was edited"


def test_the_next_line_makes_the_instances_that_are_not_there(one_gpu, command_line, tmp_path):
    code, out, err = command_line("plan", "--budget", 0, "--backend", "mig", "--gmis-per-gpu", 2)
    assert code == 0, err
    assert out.splitlines()[-1].endswith("gmi-drl train layout.yaml --apply-mig")
    node = {"version": 1, "name": "n", "gpus": {"model": "H200", "count": 1}, "cpu": {"cores": 4, "memory_gib": 64}}
    (tmp_path / "node.yaml").write_text(json.dumps(node))
    code, out, err = command_line("plan", "--node", "node.yaml", "--backend", "mig", "--gmis-per-gpu", 2)
    assert code == 0, err
    assert out.splitlines()[-1].endswith("gmi-drl train layout.yaml --apply-mig")


def test_a_training_that_this_machine_cannot_start_says_nothing_else_and_leaves_nothing(
    one_gpu, command_line, tmp_path
):
    before = sorted(tmp_path.iterdir())
    code, out, err = command_line("train", "--backend", "mps", "--gmis-per-gpu", 2)
    assert code == 5 and err.startswith("gmi-drl: nvidia-cuda-mps-control is not on") and out == ""
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.parametrize("where", [("--run-dir", "run"), ()], ids=["named", "usual"])
def test_a_training_whose_devices_are_taken_leaves_no_folder(command_line, tmp_path, where):
    with claim([f"core-{core}" for core in allowed_cores()], "somebody"):
        code, _, err = command_line("train", "--gmis-per-gpu", 1, *where)
    assert code == 7 and "somebody" in err and "Training" not in err and not list(tmp_path.glob("run*"))


def test_a_training_whose_devices_are_taken_leaves_the_folder_that_the_user_had_made(command_line, tmp_path):
    (tmp_path / "mine").mkdir()
    with claim([f"core-{core}" for core in allowed_cores()], "somebody"):
        code, _, err = command_line("train", "--gmis-per-gpu", 1, "--run-dir", "mine")
    assert code == 7 and "somebody" in err and [*(tmp_path / "mine").iterdir()] == []
