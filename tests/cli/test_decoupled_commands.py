"""`plan` and `train` of agents and trainers on GMIs of their own, as people call them."""

import json
from pathlib import Path

import pytest
from conftest import two_cores

from gmi_drl.files import load_yaml
from gmi_drl.layout.layout import Layout
from gmi_drl.layout.pools import pools_of
from gmi_drl.templates import DECOUPLED

CLUSTER = Path(__file__).parents[2] / "examples" / "clusters" / "two-h100.yaml"


@two_cores
def test_a_plan_measures_both_sides_and_is_trained_played_and_resumed(command_line):
    asked = ("--template", "decoupled", "--budget", 15, "--num-env", 16, "--gmis-per-gpu", 2)
    code, out, err = command_line("plan", *asked)
    assert code == 0 and "set the pace" in out and "Next: gmi-drl train layout.yaml\n" in out
    assert "one GMI can learn from" in err
    assert "agents act" in out and "both sides" in out and ("ran together" in out) == ("both sides at once:" in out)
    layout = load_yaml(Layout, Path("layout.yaml"))
    assert [gmi.roles for gmi in layout.gmis] == [("simulator", "agent"), ("trainer",)]
    assert layout.projection.measured and layout.projection.steps_per_second > 0

    code, out, _ = command_line("train", "layout.yaml", "--iterations", 2, "--run-dir", "run", "--format", "json")
    assert code == 0 and json.loads(out)["state"] == "done"
    code, _, err = command_line("train", "--resume", "run", "--iterations", 3)
    assert code == 0 and "A checkpoint of decoupled holds no environments: environments start anew" in err
    code, _, err = command_line("train", "--resume", "run", "--iterations", 4, "--num-env", 8)
    assert code == 2 and "gmi-drl plan --template decoupled" in err
    assert command_line("play", "run", "--steps", 3, "--format", "json")[0] == 0


def test_nodes_of_a_cluster_are_divided_evenly_where_nothing_is_measured(command_line):
    asked = ("--template", "decoupled", "--cluster", CLUSTER, "--gmis-per-gpu", 3, "--num-env", 64)
    code, out, _ = command_line("plan", *asked)
    assert code == 0 and "Next: gmi-drl train layout.yaml --launcher ray" in out
    layout = load_yaml(Layout, Path("layout.yaml"))
    assert [len(pool.trainers) for pool in pools_of(layout)] == [1] * len(layout.nodes) and len(layout.nodes) > 1
    assert DECOUPLED.check(layout) == []


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["train", "--algo", "a3c"], 2, "a3c learns from agents on other GMIs: --template decoupled"),
        (["train", "--template", "decoupled", "--algo", "sequence"], 2, "take --algo a3c, ppo, dqn or sac"),
        (["train", "--template", "decoupled", "--gmis-per-gpu", 1], 3, "needs 2 GMIs at least"),
        (["train", "--template", "decoupled", "--set", "channels.max_lag=-1"], 2, "as `channels: {max_lag: 2}`"),
        (["plan", "--template", "decoupled", "--explain"], 2, "--explain: its formulas are for equal GMIs"),
        (["train", "--template", "none"], 2, "there is no template 'none'"),
        (["plan", "--template", "decoupled", "--objective", "steps"], 2, "agents and trainers are measured separately"),
        (["plan", "--template", "decoupled", "--keep-batch", 512], 2, "agents and trainers are measured separately"),
        (["plan", "--template", "decoupled", "--cluster", CLUSTER, "--budget", 9], 2, "was made for"),
    ],
)
def test_what_cannot_be_is_refused_with_a_remedy(command_line, arguments, code, says):
    ended, _, err = command_line(*arguments)
    assert ended == code and says in err


def test_the_remedy_for_too_few_cores_makes_a_layout(command_line):
    _, _, err = command_line("train", "--template", "decoupled", "--gmis-per-gpu", 1)
    remedy = " ".join(err.split()).partition("gmi-drl plan ")[2].split()
    assert "--share-cores" in remedy and command_line("plan", *remedy)[0] == 0
    assert DECOUPLED.check(load_yaml(Layout, Path("layout.yaml"))) == []
