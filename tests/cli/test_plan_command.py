import io
import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
import yaml
from conftest import two_cores

from gmi_drl.config.learners import LEARNERS, PPOConfig
from gmi_drl.files import load_yaml
from gmi_drl.gmi import allowed_cores
from gmi_drl.layout.layout import Layout
from gmi_drl.profiler.session import Session
from gmi_drl.units import human_count
from gmi_drl.workload import TASK_SPECS

NODE = """
version: 1
name: dgx-a100
gpus: {model: A100-SXM4-40GB, count: 8}
link: nvswitch
cpu: {cores: 128, memory_gib: 1000}
"""


def test_a_plan_is_shown_explained_and_written(command_line, tmp_path):
    code, out, _ = command_line("plan", "--budget", 0, "--num-env", 16)
    layout = load_yaml(Layout, tmp_path / "layout.yaml")
    assert code == 0 and len(layout.gmis) <= len(allowed_cores())
    assert "GMI 0: 16 environments" in out and "nothing was measured" in out
    assert out.splitlines()[-1] == "Wrote layout.yaml. Next: gmi-drl train layout.yaml"
    _, again, _ = command_line("plan", "--budget", 0, "--num-env", 16)
    assert "Replaced layout.yaml" in again


def test_gmis_take_turns_on_cores_where_that_is_asked_for(command_line, tmp_path):
    code, _, err = command_line("plan", "--budget", 0, "--num-env", 16, "--gmis-per-gpu", 99)
    assert code == 3 and "99 GMIs on cpu 0 need 99 cores" in err and "(gmi-drl plan --budget 0 --share-cores)" in err
    code, out, _ = command_line("plan", "--budget", 0, "--num-env", 16, "--gmis-per-gpu", 99, "--share-cores")
    layout = load_yaml(Layout, tmp_path / "layout.yaml")
    assert (
        code == 0
        and len(layout.gmis) == 99
        and layout.share_cores
        and "which take turns on cores" in " ".join(out.split())
    )


def test_a_device_is_written_to_not_replaced(command_line, tmp_path):
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    reader = threading.Thread(target=fifo.read_text)
    reader.start()
    code, _, _ = command_line("plan", "--budget", 0, "-o", fifo)
    reader.join(10)
    assert code == 0 and fifo.is_fifo()


def test_variables_are_named_after_options(command_line, monkeypatch, tmp_path):
    monkeypatch.setenv("GMI_DRL_PLAN_OUTPUT", "mine.yaml")
    monkeypatch.setenv("GMI_DRL_PLAN_FORMAT", "json")
    monkeypatch.setenv("GMI_DRL_PLAN_BUDGET", "0")
    code, out, _ = command_line("plan")
    assert code == 0 and json.loads(out)["layout_file"] == "mine.yaml" and (tmp_path / "mine.yaml").exists()


def test_json_alone_on_stdout(command_line, tmp_path):
    code, out, _ = command_line("plan", "--budget", 0, "--format", "json", "-o", "my.yaml")
    document = json.loads(out)
    assert code == 0 and document["schema"] == "gmi-drl/plan/1" and document["layout_file"] == "my.yaml"
    assert document["layout"]["task"] == yaml.safe_load((tmp_path / "my.yaml").read_text())["task"] == "ant"


def test_a_plan_for_a_machine_that_is_elsewhere(command_line, tmp_path):
    (tmp_path / "node.yaml").write_text(NODE)
    code, out, _ = command_line("plan", "--node", "node.yaml", "--gmis-per-gpu", 4, "--num-env", 4096)
    layout = load_yaml(Layout, tmp_path / "layout.yaml")
    assert "Next, on the machine of node.yaml: gmi-drl train" in out
    assert code == 0 and len(layout.gmis) == 32 and layout.num_env == 32 * 4096
    assert {len(gmi.cores) for gmi in layout.gmis} == {4} and layout.devices[7].kind == "gpu"
    code, _, err = command_line("train", "layout.yaml")
    assert code == 5 and "sees 0" in err and "gmi-drl plan" in err
    assert "layout.yaml was made for dgx-a100 with 8 x A100-SXM4-40GB, here no GPU; 128 cores" in err


def test_many_gmis_are_shown_by_device(command_line, tmp_path):
    (tmp_path / "node.yaml").write_text(NODE.replace("128", "1280").replace("count: 8", "count: 100"))
    _, out, _ = command_line("plan", "--node", "node.yaml", "--gmis-per-gpu", 10, "--num-env", 64)
    assert "gpu 7  process, TCG_EX  GMIs 70-79: 640 environments on cores 90-101" in out
    assert "and 92 more devices" in out and len(out.splitlines()) < 20


POINTS = [
    {"gmis_per_gpu": 1, "num_env": 8192, "runnable": True, "steps_per_second": 140000, "memory_bytes": 6000000000},
    {"gmis_per_gpu": 4, "num_env": 4096, "runnable": True, "steps_per_second": 60000, "memory_bytes": 3972844748},
]
PROFILE = {"schema": "gmi-drl/profile/2", "task": "ant", "learner": "ppo", "node": "dgx-a100", "points": POINTS}


def test_node_and_profile_are_all_that_a_plan_needs(command_line, tmp_path):
    (tmp_path / "node.yaml").write_text(NODE)
    (tmp_path / "points.json").write_text(json.dumps(PROFILE))
    code, out, _ = command_line("plan", "--node", "node.yaml", "--profile", "points.json")
    layout = load_yaml(Layout, tmp_path / "layout.yaml")
    assert code == 0 and len(layout.gmis) == 32 and layout.gmis[0].num_env == 4096
    assert layout.projection.measured and 0.99 < layout.projection.steps_per_second / (8 * 4 * 60000) < 1
    assert "x the best of one GMI per device that was measured" in " ".join(out.split())
    code, _, err = command_line("plan", "--profile", "points.json", "--num-env", 8)
    assert code == 2 and "--num-env: the --profile decides that" in err


def test_a_profile_of_many_points_leaves_a_plan_short(command_line, tmp_path):
    def point(gmis, num_env):
        speed = {"steps_per_second": 1000 * num_env**0.5 / gmis**0.5, "memory_bytes": 10**9}
        return {"gmis_per_gpu": gmis, "num_env": num_env} | (speed if gmis < 9 else {}) | {"runnable": gmis < 9}

    points = [point(gmis, 128 * 2**i) for gmis in range(1, 11) for i in range(8)]
    (tmp_path / "node.yaml").write_text(NODE)
    (tmp_path / "points.json").write_text(json.dumps(PROFILE | {"points": points}))
    code, out, _ = command_line("plan", "--node", "node.yaml", "--profile", "points.json")
    assert code == 0 and "chosen from 64 runnable points" in " ".join(out.split()) and len(out.splitlines()) < 48
    assert "and 56 more" in out and "and 12 more that are not runnable (--format json)" in out
    assert "memory of a GMI (8 per device)" in out and "memory of a GMI (1 per device)" not in out


@two_cores
def test_a_plan_on_this_machine_is_measured(command_line, tmp_path, monkeypatch):
    monkeypatch.setattr("gmi_drl.profiler.confirm.MEASURE_S", 0.05)
    code, out, err = command_line("plan", "--num-env", 8, "--gmis-per-gpu", 2, "--budget", 100)
    layout = load_yaml(Layout, tmp_path / "layout.yaml")
    text = " ".join(out.split())
    assert code == 0 and len(layout.gmis) == 2 and layout.projection.measured and layout.projection.steps_per_second > 0
    assert "ran together" in text and "samples per update" in text and "host memory" in text
    assert f"of {len(allowed_cores())} cores" in text
    assert "round 1: 2 x 8" in err and "1 x 16" in err  # beside one GMI with as many environments in all


def test_too_many_environments_are_refused_before_they_are_started(command_line, monkeypatch):
    monkeypatch.setattr("gmi_drl.profiler.points.MEASURE_S", 0.05)
    code, _, err = command_line("plan", "--num-env", 2**20, "--gmis-per-gpu", 1, "--budget", 600)
    assert code == 3 and "1 GMI would take" in err and "of the host's" in err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--profile", "points.json", "--budget", 5], "--budget: --profile measures nothing: leave it out"),
        (["--node", "node.yaml", "--budget", 5], "cannot be measured here"),
        (
            ["--share-cores"],
            "the speed of GMIs that share cores says nothing (try --budget 0): leave it out",
        ),
        (["--profile", "points.json", "--share-cores"], "--share-cores: GMIs of a --profile had cores of their own"),
        (["--budget", 0, "--keep-batch", 8192], "nothing is measured, so no batch size can be kept"),
        (["--budget", 0, "--algo", "rsl_rl"], "--algo: nothing is measured, and an even cut is the same for all"),
        (["--template", "serving", "--algo", "rsl_rl"], "--algo: --template TCG learns nothing: leave it out"),
        (
            ["--template", "serving", "--objective", "learning"],
            "--objective: --template TCG learns nothing",
        ),
        (["--budget", 0, "--fresh"], "--fresh: nothing is measured, so nothing is measured anew"),
        (["--budget", 0, "--objective", "steps"], "--objective: nothing is measured, and an even cut is the same"),
        (["--keep-batch", 8192, "--objective", "learning"], "--objective: with --keep-batch every layout has"),
        (
            ["--profile", "points.json", "--objective", "learning"],
            "points.json has no gradient noise scale: measure it",
        ),
        (["--algo", "rsl_rl", "--objective", "learning"], "nothing measures the gradient noise scale of rsl_rl"),
        (["--algo", "rsl-rl"], "there is no learner 'rsl-rl'; did you mean 'rsl_rl'?"),
    ],
)
def test_options_that_contradict_each_other_are_refused(command_line, tmp_path, options, message):
    (tmp_path / "node.yaml").write_text(NODE)
    (tmp_path / "points.json").write_text(json.dumps(PROFILE))
    code, _, err = command_line("plan", *options)
    assert code == 2 and message in err


def test_a_plan_for_rsl_rl_is_measured_with_rsl_rls_runner(command_line, tmp_path, monkeypatch):
    pytest.importorskip("rsl_rl", reason="needs the extra [rsl-rl]")
    for module in ("points", "confirm"):
        monkeypatch.setattr(f"gmi_drl.profiler.{module}.MEASURE_S", 0.05)
    measured, start = [], Session.start
    monkeypatch.setattr(
        Session, "start", lambda session, claim: measured.extend(session.roles.values()) or start(session, claim)
    )
    code, out, err = command_line("plan", "--algo", "rsl_rl", "--num-env", 8, "--gmis-per-gpu", 1, "--budget", 100)
    assert code == 0 and "Measuring ant by rsl_rl on" in err and set(measured) == {LEARNERS.find("rsl_rl").probe}, err
    assert "stands for" not in " ".join(out.split())
    assert out.splitlines()[-1] == "Wrote layout.yaml. Next: gmi-drl train layout.yaml --algo rsl_rl"


def test_what_was_measured_with_another_learner_is_told(command_line, tmp_path):
    (tmp_path / "node.yaml").write_text(NODE)
    (tmp_path / "points.json").write_text(json.dumps(PROFILE))
    given = ["plan", "--node", "node.yaml", "--profile", "points.json"]
    code, out, _ = command_line(*given)
    assert code == 0 and "measured with" not in out and out.splitlines()[-1].endswith("gmi-drl train layout.yaml")
    code, out, _ = command_line(*given, "--algo", "rsl_rl")
    told = "measured with ppo in place of rsl_rl, for speed and memory: train it with --algo rsl_rl"
    assert code == 0 and told in " ".join(out.split())
    (tmp_path / "points.json").write_text(json.dumps(PROFILE | {"learner": "rsl_rl"}))
    code, out, _ = command_line(*given)  # what was measured is what shall train
    assert code == 0 and "stands for" not in out and out.splitlines()[-1].endswith("layout.yaml --algo rsl_rl")
    assert "measured with rsl_rl: train it with --algo rsl_rl" in load_yaml(Layout, tmp_path / "layout.yaml").reasons
    _, out, _ = command_line(*given, "--algo", "ppo", "--format", "json")
    plan = json.loads(out)
    told = "measured with rsl_rl in place of ppo, for speed and memory"
    assert plan["learner"] == "ppo" and told in plan["layout"]["reasons"]


def test_a_profile_with_a_noise_scale_is_chosen_from_by_what_steps_teach(command_line, tmp_path):
    (tmp_path / "node.yaml").write_text(NODE)
    known = PROFILE | {"noise": {"samples": 5000.0, "relative_error": 0.1, "trained": 100000}}
    (tmp_path / "points.json").write_text(json.dumps(known))
    given = ["plan", "--node", "node.yaml", "--profile", "points.json", "--objective"]
    code, out, _ = command_line(*given, "learning", "--format", "json")
    plan = json.loads(out)
    assert code == 0 and plan["noise"]["samples"] == 5000.0
    assert all(0 < candidate["efficiency"] < 1 for candidate in plan["candidates"])
    worth = [candidate["expected"] * candidate["efficiency"] for candidate in plan["candidates"]]
    assert worth == sorted(worth, reverse=True)
    _, out, _ = command_line(*given, "steps")
    assert "useful" in out and "gradient noise scale (arXiv 1812.06162): 5.0k samples" in " ".join(out.split())


def test_a_learner_whose_package_is_missing_is_not_measured(command_line, monkeypatch):
    monkeypatch.setattr("gmi_drl.config.learners.entries.version", lambda package: "5.3.1")
    code, _, err = command_line("plan", "--algo", "rsl_rl")
    assert code == 4 and "needs rsl-rl-lib 5.4, not 5.3.1" in err


def test_samples_per_update_that_cannot_be_had_are_no_plan(command_line):
    code, _, err = command_line("plan", "--keep-batch", 8191)
    assert code == 3 and "8191 samples per update are not 16 steps" in err


def test_planning_does_without_torch(tmp_path):
    (tmp_path / "node.yaml").write_text(NODE)
    (tmp_path / "points.json").write_text(json.dumps(PROFILE))
    arguments = ["gmi-drl", "plan", "--node", "node.yaml", "--profile", "points.json"]
    code = f"import sys; sys.argv = {arguments!r}\nfrom gmi_drl.cli import main\n"
    code += "try: main()\nfinally: print('torch' in sys.modules, file=sys.stderr)"
    run = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert run.returncode == 0 and run.stderr.strip() == "False", run.stderr


def test_a_billion_steps_have_a_price_with_gmis_and_without(command_line, tmp_path):
    (tmp_path / "node.yaml").write_text(NODE)
    (tmp_path / "points.json").write_text(json.dumps(PROFILE))
    given = ["plan", "--node", "node.yaml", "--profile", "points.json", "--price-per-gpu-hour", "A100=1.5"]
    code, out, _ = command_line(*given)
    told = "a billion steps cost 1.74, at 12.00 an hour for 8 GPUs; 2.98 with one GMI per device, at its best"
    assert code == 0 and told in " ".join(out.split()) and "cost of 1G" in out
    _, out, _ = command_line(*given, "--format", "json")
    plan = json.loads(out)
    best, solo = plan["candidates"]
    assert plan["price_per_hour"] == 12.0 and best["cost_per_billion_steps"] < solo["cost_per_billion_steps"]
    assert solo["cost_per_billion_steps"] == pytest.approx(12e9 / 3600 / (8 * 140_000), rel=0.01)
    code, _, err = command_line("plan", "--budget", 0, "--node", "node.yaml", "--price-per-gpu-hour", 2)
    assert code == 2 and "so no cost is known" in err


def test_a_plan_is_explained_formula_by_formula(command_line, tmp_path):
    (tmp_path / "node.yaml").write_text(NODE)
    (tmp_path / "points.json").write_text(json.dumps(PROFILE))
    given = ["plan", "--node", "node.yaml", "--profile", "points.json", "--explain"]
    code, out, _ = command_line(*given)
    assert code == 0 and "chosen: 4 GMIs per device" in out and "not chosen: 1 GMI per device" in out
    assert "    = 8 x 4 x 60.0k\n    = 1.9M steps/s\n" in out and "equation 3" in out
    _, out, _ = command_line(*given, "--format", "json")
    best, _ = json.loads(out)["explained"]
    assert ["8 x 4 x 60.0k", "1.9M steps/s"] in [formula["lines"][1:] for formula in best["formulas"]]
    code, _, err = command_line("plan", "--budget", 0, "--explain")
    assert code == 2 and "there is no formula to explain" in err


def test_some_gpus_of_a_node_are_the_best_linked(command_line, tmp_path):
    links = "links: [{gpus: [1, 4], kind: nvlink}]"
    (tmp_path / "node.yaml").write_text(NODE.replace("link: nvswitch", f"link: pcie\n{links}"))
    code, out, _ = command_line("plan", "--node", "node.yaml", "--gpus", 2, "--gmis-per-gpu", 4, "--num-env", 64)
    layout = load_yaml(Layout, tmp_path / "layout.yaml")
    assert code == 0 and [device.index for device in layout.devices] == [1, 4]
    assert layout.made_for.gpus == {"A100-SXM4-40GB": 8} and "uses GPUs 1,4 of 8: NVLink" in " ".join(out.split())
    code, _, err = command_line("plan", "--node", "node.yaml", "--gpus", 9)
    assert code == 2 and "9 GPUs are asked for, dgx-a100 has 8" in err


def test_a_plan_goes_by_the_points_of_the_backend_that_is_asked_for(command_line, tmp_path):
    (tmp_path / "node.yaml").write_text(NODE)
    faster = [point | {"backend": "mps", "steps_per_second": 2 * point["steps_per_second"]} for point in POINTS]
    (tmp_path / "points.json").write_text(json.dumps(PROFILE | {"points": POINTS + faster}))
    given = ["plan", "--node", "node.yaml", "--profile", "points.json"]
    for more, backend in ([], "mps"), (["--backend", "auto"], "mps"), (["--backend", "process"], "process"):
        code, out, _ = command_line(*given, *more)
        assert code == 0 and load_yaml(Layout, tmp_path / "layout.yaml").backend == backend
        assert ("x the best by process" in " ".join(out.split())) == (backend == "mps")


def test_what_was_not_measured_is_cut_by_what_training_and_serving_want(command_line, tmp_path):
    (tmp_path / "node.yaml").write_text(NODE)
    for template, backend in ("training", "mps"), ("serving", "mig"):
        given = ["--node", "node.yaml", "--backend", "auto", "--gmis-per-gpu", 4, "--template", template]
        code, out, _ = command_line("plan", *given)
        assert code == 0 and load_yaml(Layout, tmp_path / "layout.yaml").backend == backend
        assert f"backend {backend}, by what {template} wants, nothing was measured" in " ".join(out.split())


def test_no_number_of_a_table_is_cut_where_there_is_little_room():
    from rich.console import Console

    from gmi_drl.cli.plan.tables import candidate_table
    from gmi_drl.hardware.node import Node
    from gmi_drl.scheduler import plan_measured, profile_grid
    from gmi_drl.scheduler.profile import load_profile

    examples = Path(__file__).parents[2] / "examples" / "nodes"
    node, profile = load_yaml(Node, examples / "h100-x2.yaml"), load_profile(examples / "invented.json")
    task, learner = TASK_SPECS["ant"], PPOConfig()
    plan = plan_measured(task, learner, node, profile, profile_grid(profile, node, learner.horizon))
    console = Console(width=60, record=True, file=io.StringIO())
    console.print(candidate_table(plan))
    text = console.export_text()
    assert "…" not in text and human_count(plan.candidates[0].projected) in text


@pytest.mark.parametrize(
    ("template", "left"),
    [("TCG_EX", "; the same command goes on with what has been measured"), ("workers", "")],
)
def test_whoever_stops_a_plan_is_told_what_is_left(command_line, monkeypatch, template, left):
    def stopped(*args):
        raise SystemExit(130)

    monkeypatch.setattr(sys.modules["gmi_drl.cli.plan.command"], "make_plan", stopped)
    code, _, err = command_line("plan", "--template", template)
    assert code == 130 and err.endswith(f"stopped before layout.yaml was written{left}\n")


def test_a_template_that_is_not_there_is_refused_with_the_words_for_those_that_are(command_line):
    code, _, err = command_line("plan", "--template", "foo")
    assert code == 2 and "TCG_EX" in err and "training, serving" in err
