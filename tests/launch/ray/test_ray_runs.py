"""Whole runs on a Ray cluster of this machine's own making, by the commands that users give."""

import json
import os
from pathlib import Path

import psutil
import pytest
from conftest import children_of, two_cores

from gmi_drl.errors import UsageError
from gmi_drl.files import dump_yaml
from gmi_drl.launch.launchers import ONLY_NODE, agents_by, layout_for
from gmi_drl.launch.run_role import run_role
from gmi_drl.layout import GMI, Device, Layout
from tests.launch.nodes.on_two import over

pytest.importorskip("ray", reason="needs the extra [ray]")

TINY = ("--iterations", 2, "--set", "learner.horizon=4", "--set", "learner.minibatches=2")


@pytest.fixture(autouse=True)
def own_cluster(monkeypatch):
    monkeypatch.setenv("RAY_ADDRESS", "local")


def learnt(run):
    """The digest of what has been learnt."""
    newest = max((Path(run) / "checkpoints").iterdir())
    return json.loads((newest / "checkpoint.json").read_text())["learner"]


@two_cores
def test_a_training_learns_under_ray_what_it_learns_here_and_leaves_nothing(command_line, tmp_path):
    (tmp_path / "layout.yaml").write_text(dump_yaml(over(None)))
    for launcher in ("local", "ray"):
        code, out, err = command_line(
            "train", "layout.yaml", *TINY, "--launcher", launcher, "--run-dir", launcher, "--format", "json"
        )
        assert code == 0, err
        assert json.loads(out)["state"] == "done"
    assert learnt(tmp_path / "ray") == learnt(tmp_path / "local")
    assert (tmp_path / "ray" / "logs" / "gmi-1.log").exists()
    assert not children_of(os.getpid())
    code, _, err = command_line("train", "--resume", "ray", "--iterations", 3)
    assert code == 5 and "give --launcher ray" in err


def test_a_role_runs_on_the_node_that_ray_gives(tmp_path):
    (tmp_path / "role.py").write_text(
        "import os\nfrom gmi_drl import DRL_role\n\n\nclass Where(DRL_role):\n"
        "    def GMI_run(self):\n        return os.getppid()\n"
    )
    layout = Layout(devices=(Device(kind="cpu", gmis=(GMI(id=0, roles=("agent",), cores=(0,)),)),))
    (parent,) = run_role(f"{tmp_path}/role.py:Where", layout, run_dir=tmp_path / "run", launcher="ray").values()
    assert parent != os.getpid() and not psutil.pid_exists(parent)


def test_a_layout_without_room_makes_no_folder(command_line, tmp_path):
    (tmp_path / "layout.yaml").write_text(dump_yaml(over("a", "b")))
    code, _, err = command_line("train", "layout.yaml", *TINY, "--launcher", "ray", "--run-dir", "run")
    assert code == 5 and "no node of the Ray cluster is left for b" in err
    assert not (tmp_path / "run").exists()


def test_a_layout_of_one_machine_gets_a_node_with_a_name():
    assert layout_for("ray", over(None)).nodes == (ONLY_NODE,)
    assert layout_for("ray", over("a", "b")).nodes == ("a", "b")
    assert layout_for("local", over(None)).nodes == (None,)


def test_a_launcher_that_is_none_is_refused():
    with pytest.raises(UsageError, match="there is no launcher 'rey'; did you mean 'ray'"):
        layout_for("rey", over(None))


def test_on_this_machine_nobody_starts_agents():
    with agents_by("local", over(None)) as agents:
        assert agents is None
