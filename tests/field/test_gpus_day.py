"""The stages of a day on several GPUs, rehearsed on cores."""

import json
import os

import gpus_day
import gpus_day_questions
import pytest
import stages
from conftest import two_cores
from scripts import run

from gmi_drl.errors import GmiError
from gmi_drl.layout.reductions import REDUCTIONS
from tests.gmi.nvml.fake import FakeGpu


def words_of(stage):
    return [word for command in stage.commands for word in command]


def test_two_gpus_are_needed(tmp_path):
    ended = run("gpus_day", "-o", tmp_path, env={"PATH": "", "CUDA_VISIBLE_DEVICES": ""})
    assert ended.returncode == 4 and "two are needed" in ended.stderr and list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("is_rehearsal", [True, False])
def test_stages_are_complete_and_what_must_be_right_comes_first(is_rehearsal):
    found = gpus_day.all_stages(8, is_rehearsal)
    names = [stage.name for stage in found]
    assert len(set(names)) == len(names) and max(map(len, names)) < stages.NAME_WIDTH
    assert not [word for stage in found for word in words_of(stage) if "{" in word]
    assert {words_of(stage)[0] for stage in found} <= set(stages.PROGRAMS)
    kinds = ["replicas", "sums", "table_7", "figure_7_training", "figure_7_serving", "figure_11", "figure_9"]
    kinds += ["figure_8", "figure_10"]
    first = [next(name for name in names if name.startswith(kind)) for kind in kinds]
    assert sorted(first, key=names.index) == first
    for kind in kinds:
        assert all(any(name.startswith(f"{kind}_{count}") for name in names) for count in (2, 4, 8)), kind
    assert [name for name in names if name.startswith("replicas_4")] == [
        f"replicas_4_{method}" for method in ("nccl", "mrr", "har", "shard")
    ]


def test_two_gpus_are_asked_nothing_of_four():
    found = gpus_day.all_stages(2, False)
    names = {stage.name for stage in found}
    assert "sums_2x4" in names and all("_2" in name for name in names - {"machine"})
    assert {stage.commands[0][3] for stage in found if stage.name.startswith("sums")} == {"2"}
    sides = [word.split(":") for stage in found for word in words_of(stage) if word.count(":") == 2]
    assert {reduction for _, _, reduction in sides} <= set(REDUCTIONS.names)


def test_a_side_on_gpus_is_laid_out_on_the_first_ones(fake_mps, fake_nvml, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "2,0,1")
    fake_nvml.add(FakeGpu(), FakeGpu())
    found = gpus_day_questions.laid_out("TCG_EX", "ant", 2, "1:mps:SHARD", 8)
    assert [(device.kind, device.index, len(device.gmis)) for device in found.devices] == [("gpu", 0, 1), ("gpu", 1, 1)]
    assert found.backend == "mps" and {group.reduction for group in found.groups.values()} == {"SHARD"}
    assert os.environ["CUDA_VISIBLE_DEVICES"] == f"{fake_nvml.uuid(2)},{fake_nvml.uuid(0)}"


def test_a_reduction_that_cannot_be_is_refused(monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    with pytest.raises((GmiError, ValueError), match="IPC"):
        gpus_day_questions.laid_out("TCG_EX", "ant", 2, "1:process:IPC")


@two_cores
def test_stages_are_rehearsed(tmp_path):
    ended = run("gpus_day", "--rehearse", "-o", tmp_path, "--only", "replicas_2_shard", "figure_10_2")
    assert ended.returncode == 0, ended.stdout
    rows = [json.loads(line) for line in (tmp_path / "gpus_day.jsonl").read_text().splitlines()]
    assert [(row["stage"], row["state"]) for row in rows] == [("replicas_2_shard", "done"), ("figure_10_2", "done")]
    assert set(rows[1]["saw"]["1:process:MPR-gloo"]) == {"8", "16"}
