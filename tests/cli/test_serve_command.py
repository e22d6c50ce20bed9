import json
from types import SimpleNamespace

import pytest
from conftest import tiny_config, tiny_layout, two_cores
from rich.console import Console

from gmi_drl.cli import serve as command
from gmi_drl.config.learners import RslRlConfig
from gmi_drl.files import dump_yaml, load_yaml
from gmi_drl.hardware.node import Cpu, Node
from gmi_drl.layout.cut import Cut
from gmi_drl.layout.layout import Layout
from gmi_drl.replay import ExperienceDataset
from gmi_drl.replay.fields import Field, Signature
from gmi_drl.replay.limiters import MinSize
from gmi_drl.replay.selectors import Fifo
from gmi_drl.replay.server.server import Server
from gmi_drl.replay.storage import make_storage
from gmi_drl.replay.table import Table
from gmi_drl.run.folder import RunFolder
from gmi_drl.templates import TCG, template_for
from gmi_drl.workload import TASK_SPECS

ROBOT = ("--task", "ball_balance")


@pytest.fixture
def run(command_line):
    assert (
        command_line("train", *ROBOT, "--iterations", 1, "--num-env", 8, "--gmis-per-gpu", 1, "--run-dir", "run")[0]
        == 0
    )
    return "run"


@two_cores
def test_what_was_planned_is_served(command_line, run, tmp_path):
    """A layout that was searched for by measuring, and the policy of a run."""
    plan = ("plan", "--template", "serving", *ROBOT, "--num-env", 8, "--gmis-per-gpu", 2, "--budget", 30)
    code, out, err = command_line(*plan)
    assert code == 0 and "round 1: 2 x 8" in err and "1 x 16" in err
    assert out.splitlines()[-1] == "Wrote layout.yaml. Next: gmi-drl serve RUN layout.yaml --steps 1000"
    assert "samples per update" not in out and "with communication" not in out and "ran together" in out
    layout = load_yaml(Layout, tmp_path / "layout.yaml")
    assert template_for(layout, "serving") is TCG and layout.projection.steps_per_second > 0 and layout.groups == {}
    code, out, err = command_line("serve", run, "layout.yaml", "--steps", 120)
    assert code == 0 and "iteration 1: ball_balance" in out and "steps/s in all" in out and "Mean of" in out
    assert [line.split()[:3] for line in out.splitlines()[2:4]] == [["0", "8", "120"], ["1", "8", "120"]]
    code, _, err = command_line("train", "layout.yaml")
    assert code == 2 and "by TCG is for serving, not for training" in err


def test_programs_get_numbers(command_line, run, tmp_path):
    alone = TCG.lay_out(TASK_SPECS["ball_balance"], Node(name="n", cpu=Cpu(cores=1, memory_gib=8)), Cut(1, 4))
    (tmp_path / "one_core.yaml").write_text(dump_yaml(alone))
    code, out, _ = command_line("serve", run, "one_core.yaml", "--steps", 100, "--seed", 5, "--format", "json")
    document = json.loads(out)
    assert code == 0 and document["schema"] == "gmi-drl/serve/1" and document["state"] == "done"
    assert document["env_steps"] == 400 and document["steps_per_second"] > 0 and list(document["gmis"]) == ["0"]
    for latency in (document["latency_ms"], document["gmis"]["0"]["latency_ms"]):
        assert 0 < latency["p50"] <= latency["p95"] <= latency["p99"] <= latency["max"]
    _, out, _ = command_line("play", run, "--steps", 100, "--num-env", 4, "--seed", 5, "--format", "json")
    played = json.loads(out)
    for name in ("iteration", "episodes", "return_mean", "episode_length_mean"):
        assert document[name] == pytest.approx(played[name])


def test_experience_is_written_and_told_where(command_line, run, tmp_path):
    serve = ("serve", run, "--steps", 30, "--num-env", 4, "--gmis-per-gpu", 1, "--experience", "seen")
    code, out, err = command_line(*serve)
    assert code == 0 and "A control step of all environments of a GMI took, in ms: p50 " in out
    assert "Serving ball_balance on 1 GMI with 4 environments\n" in err
    assert err.splitlines()[-1] == "Wrote seen. Read it with gmi_drl.replay.ExperienceDataset('seen')."
    read = ExperienceDataset(tmp_path / "seen")
    assert read[0]["action"].shape == (3,) and len(read) == 30 * sum(gmi.num_env for gmi in read.index.gmis.values())
    code, out, err = command_line(*serve)
    assert (code, out) == (2, "") and "seen is not empty" in err and "Serving" not in err
    code, out, err = command_line(*serve[:-1], "elsewhere", "--launcher", "ray")
    assert (code, out) == (2, "") and "GMIs of a cluster cannot write experience" in err
    assert not (tmp_path / "elsewhere").exists()


def test_experience_goes_into_a_table_of_a_replay_server(command_line, run):
    seen = Signature([Field("obs", (24,)), Field("action", (3,)), Field("reward")])
    storage = make_storage(seen, 1000, longest=2)
    options = {"sampler": Fifo(), "remover": Fifo(), "max_size": 500, "limiter": MinSize(1), "storage": storage}
    serve = ("serve", run, "--steps", 30, "--num-env", 4, "--gmis-per-gpu", 1, "--into")
    with Server([Table("seen", seen, **options)]) as server:
        code, _, err = command_line(*serve, f"{server.address}/seen")
        assert code == 0 and err.splitlines()[-1] == f"Sent to {server.address}/seen."
        assert 4 * 20 < server.tables[0].size <= 4 * 30
        code, out, err = command_line(*serve, f"{server.address}/sen")
        assert (code, out) == (2, "") and "did you mean 'seen'" in err and "Serving" not in err
        code, out, err = command_line(*serve, f"{server.address}/seen", "--experience", "folder")
        assert (code, out) == (2, "") and "give one of them" in err


def test_how_many_environments_are_usual_and_how_that_is_changed_is_said(command_line, run):
    code, _, err = command_line("serve", run, "--steps", 1, "--gmis-per-gpu", 1)
    assert code == 0 and "Serving ball_balance on 1 GMI with 256 environments: 256 each (--num-env)\n" in err


def test_a_run_of_another_learner_is_refused(command_line, tmp_path):
    folder = RunFolder(tmp_path / "theirs")
    folder.create()
    task = TASK_SPECS["ant"]
    folder.write_setup(tiny_layout(1), tiny_config(learner=RslRlConfig.for_task(task)))
    code, out, err = command_line("serve", "theirs", "--steps", 1)
    assert (code, out) == (2, "") and "was trained by rsl_rl" in err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("serve", "nowhere", "--steps", 1), "nowhere is not a run folder"),
        (("serve", "nowhere"), "Missing option '--steps'"),
        (("plan", "--template", "TCGG"), "no template 'TCGG'; did you mean 'TCG'"),
        (("plan", "--template", "serving", "--keep-batch", 64), "--keep-batch: --template TCG learns nothing"),
        (
            ("plan", "--template", "serving", "--profile", "x.json"),
            "--profile: a profile measures training, not serving",
        ),
    ],
)
def test_mistakes_are_exit_2(command_line, arguments, message):
    code, out, err = command_line(*arguments)
    assert (code, out) == (2, "") and message in " ".join(err.split())


def test_a_layout_for_training_is_not_served(command_line, run):
    assert command_line("plan", *ROBOT, "--budget", 0, "-o", "training.yaml")[0] == 0
    code, _, err = command_line("serve", run, "training.yaml", "--steps", 1)
    assert code == 2 and "by TCG_EX is for training, not for serving" in err
    code, _, err = command_line("serve", run, "training.yaml", "--steps", 1, "--num-env", 4)
    assert code == 2 and "--num-env: the layout file decides that" in err


def test_an_even_plan_for_serving_says_what_it_is(command_line):
    code, out, _ = command_line("plan", "--template", "TCG", "--budget", 0, "--num-env", 4)
    assert code == 0 and "TCG: simulator and agent share a GMI" in out and "nothing was measured" in out


@pytest.mark.parametrize(("width", "has_times"), [(80, False), (140, True)])
def test_no_heading_is_broken_in_80_columns(monkeypatch, capsys, width, has_times):
    times = SimpleNamespace(milliseconds=lambda: {"p50": 9.94, "p95": 18.4, "p99": 19.6, "max": 19.6})
    numbers = {
        "num_env": 16384,
        "steps": 1000,
        "steps_per_second": 123456.0,
        "sim_s": 12.3,
        "act_s": 4.5,
        "sync_s": 0.1,
    }
    gmi = SimpleNamespace(**numbers, latencies=times, episodes=1234, return_sum=1234567.0, length_sum=1234000.0)
    monkeypatch.setattr(command, "console", lambda: Console(width=width))
    command._print(SimpleNamespace(gmis={0: gmi}))
    heading, row = capsys.readouterr().out.splitlines()
    assert heading.split()[:4] == ["GMI", "environments", "steps", "steps/s"] and ("p95" in heading) == has_times
    assert row.split()[:4] == ["0", "16384", "1000", "123.5k"] and row.split()[-3:] == ["1234", "1000.5", "1000.0"]
