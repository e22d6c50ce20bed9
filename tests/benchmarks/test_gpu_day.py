"""The stages of a first day on a GPU, rehearsed on cores."""

import json

import gpu_day_stages
import pytest
import stages
import torch
from conftest import two_cores
from scripts import run

from gmi_drl.bench.cases import CASES
from gmi_drl.workload import TASK_SPECS

no_gpu = pytest.mark.skipif(torch.cuda.is_available(), reason="is about machines without a GPU")


@no_gpu
def test_a_machine_without_a_gpu_is_refused(tmp_path):
    ended = run("gpu_day", "-o", tmp_path)
    assert ended.returncode == 4 and ended.stderr.startswith("gpu_day: the driver (NVML) tells of no GPU")
    assert list(tmp_path.iterdir()) == []


@no_gpu
@two_cores
def test_stages_are_rehearsed_and_not_repeated_unless_asked(tmp_path):
    rehearsal = ("gpu_day", "--rehearse", "-o", tmp_path)
    ended = run(*rehearsal, "--only", "first_run", "replicas", "solo")
    assert ended.returncode == 0, ended.stdout
    rows = [json.loads(line) for line in (tmp_path / "gpu_day.jsonl").read_text().splitlines()]
    assert [(row["stage"], row["state"]) for row in rows] == [(n, "done") for n in ("first_run", "replicas", "solo")]
    assert len(json.loads((tmp_path / "solo.json").read_text())["points"]) == 2
    listed = run(*rehearsal, "--list").stdout.splitlines()
    assert [line.split()[3] for line in listed if line.startswith("replicas")] == ["-"]
    assert [line.split()[3] for line in listed if line.startswith("machine")] == ["1"]


@no_gpu
def test_cases_of_the_bench_are_looked_up(tmp_path):
    ended = run(
        "gpu_day", "--rehearse", "-o", tmp_path, "--only", "figure_10", "figure_7_serving_ant", "green_contexts"
    )
    assert ended.returncode == 0, ended.stdout


def test_a_stage_that_is_none_is_refused(tmp_path):
    ended = run("gpu_day", "--rehearse", "-o", tmp_path, "--only", "solo", "everything")
    assert ended.returncode == 2 and "there is no stage everything" in ended.stderr


@pytest.mark.parametrize("is_rehearsal", [True, False])
def test_stages_are_complete(tmp_path, is_rehearsal):
    found = gpu_day_stages.all_stages(tmp_path, is_rehearsal)
    names = [stage.name for stage in found]
    assert len(set(names)) == len(names) and names.index("kernels") < names.index("solo") < names.index("sharing")
    assert {f"question_{number}" for number in range(1, 10)} <= set(names)
    words = [word for stage in found for command in stage.commands for word in command]
    assert not [word for word in words if "{" in word]
    assert {command[0] for stage in found for command in stage.commands} == set(stages.PROGRAMS)
    assert set(TASK_SPECS) <= set(words) and {"figure_10", "physics"} <= set(words) & set(CASES)
    assert ("physics=warp" in words) is not is_rehearsal
    about_gpus = [name for name in CASES if name.startswith(("sharing_", "figure_", "algorithm_2_gpu", "green_"))]
    assert len(about_gpus) == 35 and set(about_gpus) <= set(names)
    kept = [file for file in words if file.endswith(".json")]
    assert len(set(kept)) == len(kept)
    assert is_rehearsal or {f"{tmp_path}/{name}.json" for name in about_gpus} <= set(kept)
    order = ["sharing", "question_1", "sharing_ant", "sharing_shadow_hand", "figure_1b", "figure_7_training_ant"]
    order += ["figure_8_ant_2", "algorithm_2_gpu", "figure_7_training_humanoid", "figure_8_humanoid_2", "plan"]
    assert sorted(order, key=names.index) == order


def test_every_stage_fits_into_a_call_and_the_first_four_into_half_an_hour(tmp_path):
    found = gpu_day_stages.all_stages(tmp_path, False)
    call_of = stages.calls(found, stages.CALL_S)
    assert set(call_of) == {stage.name for stage in found}
    decisive = [stage.name for stage in found[: [stage.name for stage in found].index("sharing_ant")]]
    assert max(call_of[name] for name in decisive) <= 3
