"""Parts that another package brings by entry points, in real trainings: a GMI, a fresh process, finds them, too."""

import json
import os
from pathlib import Path

import pytest
import torch
from conftest import children_of, tiny_config, tiny_layout, two_cores
from toys import install_backend

from gmi_drl.errors import MachineError
from gmi_drl.files import load_yaml
from gmi_drl.launch.job import resolve
from gmi_drl.launch.training import train
from gmi_drl.layout.layout import Layout
from gmi_drl.run.checkpoint import list_checkpoints, read_part
from gmi_drl.run.folder import RunFolder
from gmi_drl.run.metrics import read_metrics

HERE = Path(__file__).parent
METHOD = """
from dataclasses import replace
from gmi_drl.layout.reductions import MPR_SHM
METHOD = replace(MPR_SHM, name="toy", reduction="toy_reduction:Toy")
"""
REDUCTION = """
from pathlib import Path
from gmi_drl.comm.reductions.mpr_shm import SharedMemoryReduction

class Toy(SharedMemoryReduction):
    def reduce(self, bucket):
        super().reduce(bucket)
        Path(__file__).with_name(f"reduced-{self.group.rank}").touch()
"""
WRITER = """
from gmi_drl.config.writers import WriterKind
KIND = WriterKind("toy", "toy_writer:Toy")

class Toy:
    def __init__(self, folder):
        self.file = (folder.path / "toy.txt").open("w")

    def write(self, row):
        if row["iteration"] == 3:
            raise ConnectionError("no way to the service")
        self.file.write(f"{row['iteration']} {row['learning_rate']}\\n")
        self.file.flush()

    def close(self):
        self.file.close()
"""

TEMPLATE = """
from gmi_drl.templates.tcg_ex import TcgEx

class Toy(TcgEx):
    name, what = "toy", "as TCG_EX, by a role of its own"

    def roles(self, layout, learner):
        return {gmi.id: "toy_role:Toy" for gmi in layout.gmis}

ENTRY = Toy()
"""
TEMPLATES_ROLE = """
from pathlib import Path
from gmi_drl.roles.training.holistic import Holistic

class Toy(Holistic):
    def GMI_run(self, **params):
        Path(__file__).with_name(f"ran-{self.GMI_id}").touch()
        return super().GMI_run(**params)
"""


@pytest.fixture
def folder(tmp_path):
    folder = RunFolder(tmp_path / "run")
    folder.create()
    return folder


@two_cores
def test_a_reduction_of_another_package_trains(folder, install):
    modules = {"toy_method": METHOD, "toy_reduction": REDUCTION}
    site = install({"gmi_drl.reductions": "toy = toy_method:METHOD"}, modules)
    assert train(resolve(tiny_layout(2, reduction="toy"), tiny_config(), folder)).state == "done"
    assert {path.name for path in site.glob("reduced-*")} == {"reduced-0", "reduced-1"}


def test_a_backend_of_another_package_trains(folder, install):
    toy = install_backend(install)
    assert train(resolve(tiny_layout(1, backend="toy"), tiny_config(), folder)).state == "done"
    assert "backend: toy" in folder.layout_file.read_text()
    assert (toy.cuts, toy.alive, len(toy.daemons)) == (1, 0, 1) and not children_of(os.getpid())


def test_a_backend_of_another_package_is_planned_and_trains(install, command_line, tmp_path):
    toy = install_backend(install)
    small = ("--num-env", 8, "--gmis-per-gpu", 1)
    code, out, err = command_line("plan", "--backend", "toy", *small, "--budget", 100)
    assert code == 0 and "cpu 0  toy, TCG_EX" in out, err
    layout = load_yaml(Layout, tmp_path / "layout.yaml")
    assert layout.backend == "toy" and layout.projection.measured and (toy.cuts, toy.alive) == (1, 0)
    run = tmp_path / "run"
    code, _, err = command_line("train", "layout.yaml", "--iterations", 1, "--run-dir", run)
    assert code == 0 and (toy.cuts, toy.alive) == (2, 0), err
    resize = ("--num-env", 8, "--iterations", 2)
    code, _, err = command_line("train", "--resume", run, "--gmis-per-gpu", 1, *resize)
    assert code == 0 and RunFolder(run).read_setup()[0].backend == "toy" and toy.cuts == 3, err


def test_a_profile_by_a_backend_of_another_package_makes_plans_for_it(install, command_line, tmp_path, monkeypatch):
    monkeypatch.setattr("gmi_drl.profiler.points.MEASURE_S", 0.05)
    toy = install_backend(install)
    code, _, err = command_line("profile", "--backend", "toy", "--num-env", 8, "--gmis-per-gpu", 1)
    assert code == 0 and toy.cuts == 1, err
    code, _, err = command_line("plan", "--profile", "profile.json")
    assert code == 0 and load_yaml(Layout, tmp_path / "layout.yaml").backend == "toy", err
    code, _, err = command_line("plan", "--profile", "profile.json", "--backend", "toy")
    assert code == 0, err
    code, _, err = command_line("plan", "--profile", "profile.json", "--backend", "process")
    assert code == 3 and "process" in err
    code, _, err = command_line("plan", "--backend", "toi", "--budget", 0)
    assert code == 2 and "there is no backend 'toi'; did you mean 'toy'" in err


def test_devices_that_cannot_be_cut_leave_no_run(folder, install, monkeypatch):
    def refuse(backend, layout):
        raise MachineError("no rights")

    monkeypatch.setattr(install_backend(install), "cut", refuse)
    with pytest.raises(MachineError, match="no rights"):
        train(resolve(tiny_layout(1, backend="toy"), tiny_config(), folder))
    folder.create()  # as in an empty one


@pytest.fixture
def learner(install):
    """Installs the learner in `toy_learner.py`, with its probe or without; gives the folder."""

    def add(has_probe=True):
        modules = {name: (HERE / f"{name}.py").read_text() for name in ("toy_learner", "toy_role")}
        if not has_probe:
            modules["toy_learner"] = modules["toy_learner"].replace('probe="toy_role:ToyProbe"', "probe=None")
        return install({"gmi_drl.learners": "toy = toy_learner:ENTRY"}, modules)

    return add


def probed(site):
    return {path.name for path in site.glob("probed-*")}


@two_cores
def test_a_learner_of_another_package_is_planned_by_its_own_probe_and_trains(command_line, tmp_path, learner):
    site = learner()
    code, out, err = command_line("plan", "--algo", "toy", "--num-env", 8, "--gmis-per-gpu", 2, "--budget", 12)
    assert code == 0 and "Measuring ant by toy" in err and probed(site) == {"probed-0", "probed-1"}, err
    assert "64 samples per update" in out
    assert "stands for" not in out and out.splitlines()[-1].endswith("gmi-drl train layout.yaml --algo toy")
    given = ["--algo", "toy", "--iterations", 3, "--run-dir", "run", "--set", "learner.learning_rate=0.5"]
    code, _, err = command_line("train", "layout.yaml", *given)
    folder = RunFolder(tmp_path / "run")
    assert code == 0 and folder.read_setup()[1].learner.learning_rate == 0.5, err
    rows = read_metrics(folder.metrics_file)
    assert [row["learning_rate"] for row in rows] == [0.5] * 3 and rows[-1]["gmis"].keys() == {"0", "1"}
    first, last = (read_part(saved, "learner")["parameters"] for saved in list_checkpoints(folder.checkpoints))
    assert not torch.equal(first, last)


@two_cores
def test_a_learner_without_a_probe_is_planned_by_our_ppo_and_says_so(command_line, tmp_path, learner):
    site = learner(has_probe=False)
    code, out, err = command_line("plan", "--algo", "toy", "--num-env", 8, "--gmis-per-gpu", 2, "--budget", 12)
    assert (
        code == 0
        and "toy has no probe: the speed and memory of our PPO are measured in its place" in err
        and not probed(site)
    ), err
    told = "measured with ppo in place of toy, for speed and memory: train it with --algo toy"
    assert told in load_yaml(Layout, tmp_path / "layout.yaml").reasons
    assert "64 samples per update" in out  # of its own horizon


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ("learner.most_obs=9", "toy takes 9 numbers, ant has 60: --set learner.most_obs=..."),
        ("learner.most_ops=9", "learner.most_ops: unknown key; did you mean 'most_obs'"),
    ],
)
def test_a_learner_of_another_package_checks_its_settings_and_the_task(
    command_line, tmp_path, learner, setting, message
):
    learner()
    code, _, err = command_line("train", "--algo", "toy", "--set", setting, "--run-dir", "run")
    assert code == 2 and message in err and not (tmp_path / "run").exists(), err


@pytest.mark.parametrize("command", ["plan", "profile", "plan --profile"])
def test_what_a_learner_cannot_learn_is_not_measured(command_line, tmp_path, learner, command):
    learner(has_probe=False)
    profile = {"schema": "gmi-drl/profile/2", "task": "humanoid", "learner": "toy", "node": "a", "points": []}
    (tmp_path / "points.json").write_text(json.dumps(profile))
    given = ["plan", "--profile", "points.json"] if command == "plan --profile" else [command]
    code, _, err = command_line(*given, "--task", "humanoid", "--algo", "toy")
    assert code == 2 and "toy takes 100 numbers, humanoid has" in err and "easuring" not in err, err


def test_a_learner_of_another_package_tells_what_memory_it_takes(command_line, learner):
    site = learner()
    small = ["--num-env", 8, "--gmis-per-gpu", 1, "--iterations", 1]
    for given, is_probed in (([], set()), (["--set", "learner.history_gib=1e6"], {"probed-0"})):
        code, _, err = command_line("train", "--algo", "toy", *small, *given, "--run-dir", f"run-{len(given)}")
        assert code == 0 and probed(site) == is_probed, err
        assert ("8 environments are many: measuring how much memory a few take" in err) == bool(is_probed)


def test_memory_is_measured_with_our_ppo_where_a_learner_brings_no_probe(command_line, learner, tmp_path):
    learner(has_probe=False)
    small = ["--num-env", 8, "--gmis-per-gpu", 1, "--iterations", 1, "--set", "learner.history_gib=1e6"]
    code, _, err = command_line("train", "--algo", "toy", *small, "--run-dir", "run")
    assert code == 5 and "toy has no probe" in err and "the memory is not known" not in err, err
    told = " ".join(err.split())
    assert "and 976.6 TiB more for toy" in told and not (tmp_path / "run").exists()


def test_a_writer_of_another_package_gets_rows_and_its_failure_ends_nothing(folder, install):
    install({"gmi_drl.writers": "toy = toy_writer:KIND"}, {"toy_writer": WRITER})
    warnings = []
    config = tiny_config(iterations=4, writers=("toy",))
    assert train(resolve(tiny_layout(1), config, folder), on_warning=warnings.append).state == "done"
    rows = read_metrics(folder.metrics_file)
    assert [row["iteration"] for row in rows] == [1, 2, 3, 4]
    written = "".join(f"{row['iteration']} {row['learning_rate']}\n" for row in rows[:2])
    assert (folder.path / "toy.txt").read_text() == written
    why = "failed: ConnectionError: no way to the service"
    assert warnings == [f"the writer toy {why}; the run goes on without it"]


@two_cores
def test_a_template_of_another_package_plans_and_trains(install, command_line, tmp_path):
    modules = {"toy_template": TEMPLATE, "toy_role": TEMPLATES_ROLE}
    site = install({"gmi_drl.templates": "toy = toy_template:ENTRY"}, modules)
    plan = ("plan", "--template", "toy", "--budget", 0, "--num-env", 8, "--gmis-per-gpu", 2)
    code, out, _ = command_line(*plan)
    assert code == 0 and "toy: as TCG_EX, by a role of its own" in out
    layout = load_yaml(Layout, tmp_path / "layout.yaml")
    assert layout.template == "toy" and len(layout.gmis) == 2
    folder = RunFolder(tmp_path / "run")
    folder.create()
    assert train(resolve(layout, tiny_config(), folder)).state == "done"
    assert {path.name for path in site.glob("ran-*")} == {"ran-0", "ran-1"}
