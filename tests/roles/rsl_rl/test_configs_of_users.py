"""What users of Isaac Lab and mjlab have trains here as it is."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
import yaml
from rsl_rl_configs import FOREIGN, KINDS, REFUSED

from gmi_drl.algo.flat_parameters import tensor_digest
from gmi_drl.comm.reductions.single import NoReduction
from gmi_drl.config.learners.rsl_rl_file import read_rsl_rl_config
from gmi_drl.config.run_config import RunConfig
from gmi_drl.errors import UsageError
from gmi_drl.files import dump_yaml, parse
from gmi_drl.roles.training.iteration_stats import Decision
from gmi_drl.tasks import make
from gmi_drl.tasks.sim_task import SimTask

pytest.importorskip("rsl_rl", reason="needs the extra [rsl-rl]")

from gmi_drl.roles.rsl_rl.replica import RslRlReplica
from tests.fork_server import SERVER

GROUPS = ("actor", "critic", "rnd_state")
TESTS = Path(__file__).parents[2]
OLD_RSL_RL = TESTS.parent / ".venv" / "rsl-rl-5.4"


@pytest.fixture(autouse=True)
def ant_of_users(monkeypatch):
    """Ant with every group of observations that they name, where neither wandb nor neptune uploads anything."""
    stand_in(monkeypatch)


def stand_in(monkeypatch):
    images = torch.rand(4, 3, 12, 12)
    groups = property(lambda task: dict.fromkeys(GROUPS, task.obs) | {"camera": images})
    monkeypatch.setattr(SimTask, "groups", groups, raising=False)
    monkeypatch.setattr("rsl_rl.utils.wandb_log_writer.wandb", None)
    monkeypatch.setattr("rsl_rl.utils.neptune_log_writer.neptune", None)


def make_replica(tmp_path, content):
    (tmp_path / "agent.yaml").write_text(yaml.dump(content))
    runner, settings = read_rsl_rl_config(tmp_path / "agent.yaml")
    config = parse(RunConfig, {**settings, "learner": {"kind": "rsl_rl", "runner": runner}}, "agent.yaml")
    assert parse(RunConfig, yaml.safe_load(dump_yaml(config)), "config.yaml") == config  # as its run folder keeps it
    return RslRlReplica(make("ant", num_env=4), config, NoReduction(), sample_share=1.0, seed=1, log_dir=tmp_path)


def train(tmp_path, content):
    """Two iterations of a replica that learns. Returns what it tells of the last one, and of its logger."""
    replica = make_replica(tmp_path, content)
    before = tensor_digest(*replica.learner_state().values())
    told = []
    for _ in range(2):
        replica.iterate(lambda: Decision.GO_ON)
        told.append(replica.metrics())
    assert tensor_digest(*replica.learner_state().values()) != before
    replica.export(tmp_path / "model_2.pt")
    replica.iteration_metrics.close()
    return told


@pytest.mark.parametrize("kind", KINDS)
def test_it_trains(kind, tmp_path):
    first, last = train(tmp_path, KINDS[kind])
    losses = set(last)
    assert losses >= {"surrogate_loss", "value_loss"}
    assert ("rnd_loss" in losses) == ("rnd_cfg" in kind) and ("symmetry_loss" in losses) == ("symmetry_cfg" in kind)
    has_log = KINDS[kind].get("logger") == "tensorboard"
    assert "warning" not in last and ("is required to log" in first.get("warning", "")) != has_log


def test_it_trains_with_the_version_that_mjlab_asks_for(tmp_path):
    if not (OLD_RSL_RL / "ready").exists():
        pytest.skip(f"{OLD_RSL_RL.name} is missing: make test installs it")
    paths = [OLD_RSL_RL, TESTS, Path(__file__).parent, os.environ.get("PYTHONPATH", "")]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(map(str, paths))}
    command = [sys.executable, "-c", "import test_configs_of_users as tests; tests.train_all_by_5_4()"]
    SERVER.run(command, env=environment, cwd=tmp_path, check=True, timeout=240, stdout=subprocess.DEVNULL)


def train_all_by_5_4():
    """In a process of its own."""
    from gmi_drl.roles.rsl_rl import version

    assert version.installed() == (5, 4)
    stand_in(pytest.MonkeyPatch())
    torch.set_num_threads(1)
    for number, content in enumerate(KINDS.values()):
        folder = Path.cwd() / str(number)
        folder.mkdir()
        train(folder, content)


@pytest.mark.parametrize("kind", REFUSED)
def test_what_cannot_be_trained_is_refused_by_the_name_of_its_key(kind, tmp_path):
    content, why = REFUSED[kind]
    with pytest.raises(UsageError, match=why):
        make_replica(tmp_path, content)


@pytest.mark.parametrize("kind", FOREIGN)
def test_what_is_not_installed_is_refused_by_the_name_of_its_key(kind, tmp_path):
    content, why = FOREIGN[kind]
    with pytest.raises(UsageError, match=why):
        make_replica(tmp_path, content)
