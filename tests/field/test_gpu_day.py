"""The stages of a first day on a GPU, rehearsed on cores."""

import json

import gpu_day
import gpu_day_stages
import pytest
import stages
import torch
from conftest import two_cores
from scripts import run

from gmi_drl.benchmarks.cases import CASES
from gmi_drl.workload import TASK_SPECS

no_gpu = pytest.mark.skipif(torch.cuda.is_available(), reason="is about machines without a GPU")
CALLS = range(1, 1 + len(gpu_day_stages.CALLS))


@no_gpu
def test_a_machine_without_a_gpu_is_refused(tmp_path):
    ended = run("gpu_day", "-o", tmp_path)
    assert ended.returncode == 4 and ended.stderr.startswith("gpu_day: the driver (NVML) tells of no GPU")
    assert list(tmp_path.iterdir()) == []


@no_gpu
@two_cores
def test_stages_are_rehearsed_and_not_repeated_unless_asked(tmp_path):
    rehearsal = ("gpu_day", "--rehearse", "-o", tmp_path)
    kept = gpu_day_stages.REHEARSED.read_text()
    ended = run(*rehearsal, "--only", "native_ipc", "solo")
    assert ended.returncode == 0, ended.stdout
    rows = [json.loads(line) for line in (tmp_path / "gpu_day.jsonl").read_text().splitlines()]
    assert [(row["stage"], row["state"]) for row in rows] == [("native_ipc", "done"), ("solo", "done")]
    assert list(rows[1]["saw"]) == ["8", "16", *(f"{best} for 0.1 s" for best in rows_by_speed(rows[1]["saw"]))]
    assert gpu_day_stages.REHEARSED.read_text() == kept
    listed = run(*rehearsal, "--list").stdout
    assert "solo" in listed and "\ncall 1: about" in listed


def rows_by_speed(saw):
    """The numbers of environments, fastest first."""
    return sorted(("8", "16"), key=lambda num_env: -saw[num_env]["steps_per_second"])


def test_a_stage_that_is_none_is_refused(tmp_path):
    ended = run("gpu_day", "--rehearse", "-o", tmp_path, "--only", "solo", "everything")
    assert ended.returncode == 2 and "there is no stage everything" in ended.stderr


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--only", "solo", "--call", "2"), "leave out --call"),
        (("--only", "solo", "--resume-from", "solo"), "leave out --call and --resume-from"),
        (("--call", "0"), "there is no call 0"),
        (("--call", "99"), "there is no call 99"),
        (("--call", "1", "--resume-from", "solo"), "solo is of call 2: --call 1 ends before it"),
    ],
)
def test_options_that_choose_nothing_or_contradict_each_other_are_refused(
    options, words, tmp_path, monkeypatch, capsys
):
    monkeypatch.setattr("sys.argv", ["gpu_day.py", "--list", "-o", str(tmp_path), *options])
    with pytest.raises(SystemExit) as ended:
        gpu_day.main()
    assert ended.value.code == 2 and words in capsys.readouterr().err


@pytest.mark.parametrize("is_rehearsal", [True, False])
def test_stages_are_complete(tmp_path, is_rehearsal):
    found = gpu_day_stages.all_stages(tmp_path, is_rehearsal)
    names = [stage.name for stage in found]
    assert len(set(names)) == len(names)
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


def names_in(found, call):
    return [stage.name for stage in found if stage.call == call]


def test_calls_are_in_the_order_of_importance(tmp_path):
    found = gpu_day_stages.all_stages(tmp_path, False)
    assert [stage.call for stage in found] == sorted(stage.call for stage in found)
    first = ["machine", "question_1", "question_3_torch", "registration", "tests", "native", "native_shm"]
    first += ["native_ipc", "native_mps", "question_8", "question_7", "question_6", "question_2", "question_4"]
    assert names_in(found, 1) == [*first, "question_9"], "what faults a client of MPS comes last of all"
    assert names_in(found, 2) == ["question_3_warp", "kernels", "first_run", "warp_tests", "solo", "sharing"]
    assert {"serving", "experience", "humanoid_sharing", "shadow_hand_sharing"} <= set(names_in(found, 3))
    later = ["plan", "replicas", "sharing_ant", "figure_1b", "figure_7_training_ant", "figure_7_training_humanoid"]
    names = [stage.name for stage in found if stage.call > 3]
    assert sorted(later, key=names.index) == later


def test_the_first_call_needs_no_warp(tmp_path):
    words = {
        word
        for stage in gpu_day_stages.all_stages(tmp_path, False)
        for command in stage.commands
        for word in command
        if stage.call == 1
    }
    assert "physics=native" in words and "physics=warp" not in words and "warp" not in words


def test_every_call_fits_and_the_first_three_leave_a_tenth(tmp_path):
    found = gpu_day_stages.all_stages(tmp_path, False)
    for call in range(1, found[-1].call + 1):
        seconds = sum(stage.seconds for stage in found if stage.call == call)
        assert 0 < seconds <= stages.CALL_S * (stages.SPARED if call in CALLS else 1), call


def test_what_the_first_three_calls_take_was_measured_by_a_rehearsal_of_all_their_stages(tmp_path):
    known = gpu_day_stages.rehearsed()
    for stage in gpu_day_stages.all_stages(tmp_path, True):
        if stage.call in CALLS:
            assert known[stage.name].state == stages.DONE and known[stage.name].cpu_s > 0, stage.name
            told = tuple(gpu_day_stages.shown(command, tmp_path) for command in stage.commands)
            assert known[stage.name].commands == told, f"rehearse it anew: gpu_day.py --rehearse --only {stage.name}"


def test_an_estimate_is_what_the_rehearsal_took_and_what_only_a_gpu_takes(tmp_path):
    (solo,) = (stage for stage in gpu_day_stages.all_stages(tmp_path, False) if stage.name == "solo")
    (part,) = (part for part in gpu_day_stages.SECOND if part.name == "solo")
    assert solo.seconds == part.gpu_s + gpu_day_stages.rehearsed()["solo"].cpu_s


def test_what_a_rehearsal_took_is_kept_beside_what_is_known_of_other_stages(tmp_path):
    def row(name, cpu_s):
        file = str(gpu_day_stages.HERE / "gpu_questions.py")
        commands = [["python", file, "gpm", f"{tmp_path}/a.json"]]
        return {"stage": name, "state": "done", "seconds": 2.0, "cpu_s": cpu_s, "commands": commands}

    file = tmp_path / "kept.jsonl"
    for rows in ({"solo": row("solo", 1.0), "machine": row("machine", 3.0)}, {"solo": row("solo", 2.0)}):
        gpu_day_stages.remember(rows, tmp_path, file)
    known = gpu_day_stages.rehearsed(file)
    assert {name: one.cpu_s for name, one in known.items()} == {"machine": 3.0, "solo": 2.0}
    assert known["solo"].commands == ("python benchmarks/gpu_day/gpu_questions.py gpm RESULTS/a.json",)


def a_day():
    calls = {"a": 1, "b": 1, "c": 2, "d": 2, "e": 3, "f": 4}
    return [stages.Stage(name, name, 1.0, (), call) for name, call in calls.items()]


@pytest.mark.parametrize(
    ("had", "options", "names"),
    [
        ({}, {}, "abcdef"),
        ({"a": "done"}, {"call": 1}, "b"),
        ({"a": "done", "b": "exit 1"}, {}, "cdef"),
        ({"a": "done"}, {"resume_from": "b", "call": 2}, "bcd"),
        ({"c": "exit 1"}, {"resume_from": "c"}, "cdef"),
        ({"a": "done", "b": "exit 1", "c": "done"}, {"call": 3}, "ebd"),
        ({"a": "done"}, {"only": ["a"]}, "a"),
    ],
)
def test_a_call_has_its_stages_goes_on_where_it_is_told_to_and_tries_again_what_failed(had, options, names):
    rows = {name: {"state": state} for name, state in had.items()}
    assert [stage.name for stage in gpu_day.chosen(a_day(), rows, **options)] == list(names)
