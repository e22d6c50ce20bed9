"""`gmi-drl train --algo rsl_rl`."""

import json
import os
import sys
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pytest
import yaml
from conftest import environment, tiny_layout, two_cores

from gmi_drl.config.learners import entries
from gmi_drl.config.run_config import default_config
from gmi_drl.files import dump_yaml
from gmi_drl.launch.job import resolve
from gmi_drl.run.checkpoint import read_index
from gmi_drl.run.folder import RunFolder
from gmi_drl.run.metrics import read_metrics
from gmi_drl.workload import TASK_SPECS
from tests.fork_server import SERVER

NETWORK = {"class_name": "MLPModel", "hidden_dims": [8], "obs_normalization": True}
AGENT = {
    "num_steps_per_env": 4,
    "max_iterations": 3,
    "save_interval": 2,
    "logger": "tensorboard",
    "obs_groups": {"actor": ["policy"], "critic": ["policy"]},
    "actor": {**NETWORK, "distribution_cfg": {"class_name": "GaussianDistribution", "init_std": 0.3}},
    "critic": NETWORK,
    "algorithm": {"class_name": "PPO", "num_mini_batches": 2, "schedule": "adaptive", "desired_kl": 1e-3},
}
WRITER = """
from pathlib import Path
from rsl_rl.utils import LogWriter
from torch.utils.tensorboard import SummaryWriter

class Writer(SummaryWriter, LogWriter):
    def stop(self):
        (Path(self.log_dir) / "ended").touch()
"""
SEEN = """
import gymnasium
import numpy as np
from gymnasium import spaces


class Seen(gymnasium.Env):
    '''A point, and a picture in which it is lit; an action moves it.'''

    observation_space = spaces.Dict(
        {"joints": spaces.Box(-1, 1, (2,), np.float32), "camera": spaces.Box(0, 255, (12, 12, 3), np.uint8)}
    )
    action_space = spaces.Box(-1, 1, (2,), np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.at = self.np_random.uniform(-1, 1, 2).astype(np.float32)
        return self._seen(), {}

    def step(self, action):
        self.at = np.clip(self.at + 0.1 * action, -1, 1).astype(np.float32)
        return self._seen(), -float(np.square(self.at).sum()), False, False, {}

    def _seen(self):
        camera = np.zeros((12, 12, 3), np.uint8)
        camera[tuple(((self.at + 1) * 5.9).astype(int))] = 255
        return {"joints": self.at, "camera": camera}


gymnasium.register("Seen-v0", Seen, max_episode_steps=6)
"""
GAUSSIAN = {"distribution_cfg": {"class_name": "GaussianDistribution", "init_std": 0.3}}
CNN = NETWORK | {"class_name": "CNNModel", "cnn_cfg": {"output_channels": [4], "kernel_size": 3, "stride": 2}}
RNN = NETWORK | {"class_name": "RNNModel", "rnn_type": "gru", "rnn_hidden_dim": 8}
MODELS = {"convolutions": (CNN, ["joints", "camera"]), "memory": (RNN, ["joints"])}
"""rsl_rl's own networks, and the groups of observations that they see."""

MANY_MINI_BATCHES = "learner.runner.algorithm.num_mini_batches=99"
RSL_RL = ["--algo", "rsl_rl", "--num-env", 8, "--run-dir", "run"]


@two_cores
def test_a_run_by_an_agent_file_on_two_gmis_and_its_resumption_on_one(command_line, tmp_path, monkeypatch):
    """Every checkpoint compares digests of parameters, optimizer and normalisers over the GMIs."""
    pytest.importorskip("rsl_rl", reason="needs the extra [rsl-rl]")
    (tmp_path / "writers.py").write_text(WRITER)
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{os.environ.get('PYTHONPATH', '')}")
    (tmp_path / "agent.yaml").write_text(yaml.dump(AGENT | {"logger": {"class_name": "writers:Writer"}}))
    code, out, err = command_line("train", *RSL_RL, "--gmis-per-gpu", 2, "--rsl-rl-config", "agent.yaml")
    assert code == 0, err
    assert out == "Done: run holds metrics.jsonl and run/checkpoints/000003. Next: gmi-drl status run\n"
    folder = RunFolder(tmp_path / "run")
    rows = read_metrics(folder.metrics_file)
    assert [row["iteration"] for row in rows] == [1, 2, 3] and rows[-1]["env_steps"] == 3 * 4 * 16
    assert len({row["learning_rate"] for row in rows}) > 1 and set(rows[-1]["gmis"]) == {"0", "1"}
    assert [path.name for path in sorted(folder.path.glob("model_*.pt"))] == ["model_0.pt", "model_2.pt", "model_3.pt"]
    assert len(list(folder.path.glob("events.out.tfevents.*"))) == 1  # rsl_rl's own logger, on rank 0
    assert (folder.path / "ended").exists()  # and its writer, here one of the user's, has had its end

    resized = ["--iterations", 4, "--gmis-per-gpu", 1]
    code, out, err = command_line("train", "--resume", "run", *resized, "--format", "json")
    assert code == 0 and json.loads(out)["iteration"] == 4, err
    index = read_index(folder.checkpoints / "000004")
    assert index["env_steps"] == 4 * 4 * 16 and len(index["parts"]) == 2
    for arguments, message in (
        (["--algo", "ppo"], "the run learns by rsl_rl"),
        (["--set", "learner.runner.actor.hidden_dims=[9]"], "learner.runner.actor: the run has another: its networks"),
        (["--rsl-rl-config", "agent.yaml"], "is for a new run"),
        (["--set", "learner.gamma=0.9"], "learner.gamma: unknown key"),
        (["--task", "humanoid"], "the run trains ant: for another task start a new run"),
    ):
        code, _, err = command_line("train", "--resume", "run", "--iterations", 5, *arguments)
        assert code == 2 and message in err
    (folder.path / "model_5.pt").mkdir()
    code, _, err = command_line("train", "--resume", "run", "--iterations", 5)
    assert code == 4 and "model_5.pt cannot be written: Is a directory" in err
    code, out, err = command_line("play", "run", "--steps", 2)
    assert code == 0 and ": ant, 2 steps" in err + out


@pytest.mark.parametrize("kind", MODELS)
def test_its_own_networks_train_by_a_file_and_play(command_line, tmp_path, monkeypatch, kind):
    pytest.importorskip("rsl_rl", reason="needs the extra [rsl-rl]")
    (tmp_path / "seen.py").write_text(SEEN)
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{os.environ.get('PYTHONPATH', '')}")
    monkeypatch.syspath_prepend(tmp_path)  # `play` runs in this process
    task, (network, seen) = "gymnasium:seen:Seen-v0", MODELS[kind]
    agent = AGENT | {"obs_groups": {"actor": seen, "critic": seen}, "actor": network | GAUSSIAN, "critic": network}
    (tmp_path / "agent.yaml").write_text(yaml.dump({**agent, "max_iterations": 2, "logger": None}))
    given = ["--gmis-per-gpu", 1, "--rsl-rl-config", "agent.yaml"]
    code, _, err = command_line("train", "--task", task, *RSL_RL, *given)
    assert code == 0, err
    rows = read_metrics(RunFolder(tmp_path / "run").metrics_file)
    assert rows[-1]["env_steps"] == 2 * 4 * 8 and rows[-1]["episodes"] == 8
    code, out, err = command_line("play", "run", "--steps", 8)
    assert code == 0 and f"iteration 2: {task}, 8 steps" in err + out and "Mean of 4 finished" in err + out


def test_the_remedy_for_other_groups_of_observations_helps(command_line, tmp_path):
    pytest.importorskip("rsl_rl", reason="needs the extra [rsl-rl]")
    (tmp_path / "agent.yaml").write_text(yaml.dump(AGENT | {"obs_groups": {"actor": ["policy"], "critic": ["critic"]}}))
    given = [*RSL_RL, "--rsl-rl-config", "agent.yaml"]
    code, _, err = command_line("train", *given)
    remedy = "learner.runner.obs_groups={actor: [policy], critic: [policy]}"
    assert code == 2 and f"--set '{remedy}'" in " ".join(err.split())
    code, _, err = command_line("train", *given, "--set", remedy, "--set", MANY_MINI_BATCHES)
    assert code == 2 and "99 mini-batches" in err  # refused for the next mistake only


@pytest.mark.parametrize("name", ["evil:Net", "evil.Net"])
@pytest.mark.parametrize("part", ["actor", "algorithm"])
def test_a_class_in_a_configuration_is_not_imported_from_the_working_directory(tmp_path, part, name):
    pytest.importorskip("rsl_rl", reason="needs the extra [rsl-rl]")
    (tmp_path / "evil.py").write_text("open('marker', 'w')")
    (tmp_path / "agent.yaml").write_text(yaml.dump(AGENT | {part: AGENT[part] | {"class_name": name}}))
    given = [*RSL_RL, "--gmis-per-gpu", 1, "--rsl-rl-config", "agent.yaml"]
    command = [Path(sys.executable).with_name("gmi-drl"), "train", *map(str, given)]
    run = SERVER.run(command, cwd=tmp_path, capture_output=True, text=True, env=environment())
    said = " ".join(run.stderr.split())
    assert run.returncode == 2 and "cannot be found: install the package" in said and "evil" in said, run.stderr
    assert not (tmp_path / "marker").exists()


def test_a_logger_that_fails_ends_no_run_and_is_told_of(command_line, tmp_path, monkeypatch):
    pytest.importorskip("rsl_rl", reason="needs the extra [rsl-rl]")
    (tmp_path / "wandb.py").write_text("def init(**settings):\n    raise ConnectionError('no [net]')\n")
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{os.environ.get('PYTHONPATH', '')}")
    (tmp_path / "agent.yaml").write_text(yaml.dump(AGENT | {"logger": "wandb", "wandb_project": "ants"}))
    code, _, err = command_line("train", *RSL_RL, "--gmis-per-gpu", 1, "--rsl-rl-config", "agent.yaml")
    warning = "rsl_rl's logger failed: ConnectionError: no [net]: the run goes on without it"
    assert code == 0 and err.count(f"Warning: {warning}\n") == 1, err
    folder = RunFolder(tmp_path / "run")
    assert [row.get("warning") for row in read_metrics(folder.metrics_file)] == [warning, None, None]
    assert f"Warning: {warning}\n" in folder.log_file(0).read_text()


def test_without_the_package_or_with_an_old_one_nothing_starts(command_line, tmp_path, monkeypatch):
    def missing(name):
        raise PackageNotFoundError(name)

    for find, message in ((missing, "needs rsl-rl-lib"), (lambda name: "5.3.1", "needs rsl-rl-lib 5.4, not 5.3.1")):
        monkeypatch.setattr(entries, "version", find)
        code, _, err = command_line("train", *RSL_RL)
        assert code == 4 and message in err and "pip install 'gmi-drl[rsl-rl]'" in err
        assert not (tmp_path / "run").exists()


def test_the_oldest_one_that_is_supported_may_start(monkeypatch):
    monkeypatch.setattr(entries, "version", lambda name: "5.4.0")
    resolve(tiny_layout(1), default_config(TASK_SPECS["ant"], "rsl_rl"), RunFolder(Path("run")))


def test_what_does_not_go_together_is_refused(command_line, tmp_path):
    pytest.importorskip("rsl_rl", reason="needs the extra [rsl-rl]")
    (tmp_path / "agent.yaml").write_text(yaml.dump(AGENT))
    (tmp_path / "layout.yaml").write_text(dump_yaml(tiny_layout(1)))
    for arguments, message in (
        (["--rsl-rl-config", "agent.yaml"], "--rsl-rl-config is for --algo rsl_rl, not for ppo"),
        (["--algo", "rsl-rl"], "there is no learner 'rsl-rl'; did you mean 'rsl_rl'?"),
        (["--algo", "rsl_rl", "--set", "learner.gamma=0.9"], "learner.gamma: unknown key; known: kind"),
        (["--set", "learner.kind=rsl_rl"], "--set learner.kind: --algo chooses the algorithm"),
        (
            [*RSL_RL, "--rsl-rl-config", "agent.yaml", "--set", MANY_MINI_BATCHES],
            "99 mini-batches",
        ),
    ):
        code, _, err = command_line("train", *arguments)
        assert code == 2 and message in err, err
