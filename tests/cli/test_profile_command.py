import json
import shlex

import pytest

from gmi_drl.profiler import worker_rates
from gmi_drl.scheduler.profile import load_profile
from gmi_drl.scheduler.worker_rates import load_worker_profile


def test_a_grid_is_measured_into_a_file_that_plan_reads(command_line, tmp_path, monkeypatch):
    monkeypatch.setattr("gmi_drl.profiler.points.MEASURE_S", 0.05)
    code, out, err = command_line("profile", "--gmis-per-gpu", 1, "--num-env", "16,8", "-o", "p.json")
    points = load_profile(tmp_path / "p.json").points
    assert code == 0 and [point.num_env for point in points] == [8, 16] and all(point.runnable for point in points)
    assert "1 x 8 environments: one GMI does" in err and out.splitlines()[-1].endswith("--task ant --profile p.json")
    code, out, _ = command_line("plan", "--profile", "p.json")
    assert code == 0 and "one GMI per device is all that was measured" in " ".join(out.split())


def test_the_next_command_plans_for_what_was_measured_as_it_is_played(command_line, tmp_path, monkeypatch):
    pytest.importorskip("gymnasium", reason="needs the extra [gymnasium]")
    monkeypatch.setattr("gmi_drl.profiler.points.MEASURE_S", 0.05)
    task = ("--task", "gymnasium:Pendulum-v1", "--env-arg", "g=9.0", "--set", "task.channels=last")
    code, out, err = command_line("profile", *task, "--gmis-per-gpu", 1, "--num-env", 8, "-o", "a profile.json")
    assert code == 0, err
    command = shlex.split(out.partition("Next: gmi-drl ")[2])
    assert command[-4:] == ["--set", "task.channels=last", "--profile", "a profile.json"]
    code, out, err = command_line(*command)
    assert code == 0 and 'gymnasium:Pendulum-v1{"g": 9.0}' in out, err


def test_a_profile_says_which_learner_was_measured(command_line, tmp_path, monkeypatch):
    pytest.importorskip("rsl_rl", reason="needs the extra [rsl-rl]")
    monkeypatch.setattr("gmi_drl.profiler.points.MEASURE_S", 0.05)
    given = ["--algo", "rsl_rl", "--gmis-per-gpu", 1, "--num-env", 8, "-o", "p.json"]
    code, _, err = command_line("profile", *given)
    profile = load_profile(tmp_path / "p.json")
    assert code == 0 and profile.learner == "rsl_rl" and profile.points[0].runnable, err


def test_one_core_is_measured_for_plans_of_workers(command_line, tmp_path, monkeypatch):
    monkeypatch.setattr("gmi_drl.profiler.worker_rates.MEASURE_S", 0.05)
    launched, session = [], worker_rates.Session
    monkeypatch.setattr(
        worker_rates, "Session", lambda *given, **more: launched.append(given[0]) or session(*given, **more)
    )
    code, out, err = command_line(
        "profile", "--template", "workers", "--task", "ball_balance", "--num-env", 4, "-o", "w.json"
    )
    assert code == 0, err
    measured = load_worker_profile(tmp_path / "w.json")
    assert measured.task == "ball_balance" and sorted(measured.answers) == [2, 4, 8] and measured.gpu is None
    assert [len(gmi.cores) for layout in launched for gmi in layout.gmis] == [1]
    assert "measured on one core alone" in out
    assert "--template workers --task ball_balance --cluster FILE --profile w.json" in out
    for option, said in (
        ("--noise", "measures one core"),
        ("--backend=process", "--backend: --template workers measures one core"),
        ("--num-env=4,8", "give one --num-env"),
    ):
        code, _, err = command_line("profile", "--template", "workers", "--task", "ball_balance", option)
        assert code == 2 and said in err


@pytest.mark.starts_gmis  # which takes the second
def test_what_there_was_no_time_for_is_listed(command_line, monkeypatch):
    monkeypatch.setattr("gmi_drl.profiler.points.MEASURE_S", 0.05)
    code, out, _ = command_line("profile", "--num-env", "8,16", "--gmis-per-gpu", 1, "--budget", 1, "--format", "json")
    document = json.loads(out)
    assert code == 0 and [point["num_env"] for point in document["points"]] == [8]  # one is always measured
    assert document["unmeasured"] == [[1, 16]]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--num-env", "8,x"], "not a list of numbers"),
        (["--num-env", "0"], "not a list of numbers"),
        (["--gmis-per-gpu", "99999"], "at most"),
    ],
)
def test_wrong_numbers_are_refused(command_line, options, message):
    code, _, err = command_line("profile", *options)
    assert code == 2 and message in " ".join(err.split())
