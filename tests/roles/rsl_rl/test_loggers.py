"""What rsl_rl's own loggers get of a replica, and that none of them ends a training."""

from types import SimpleNamespace

import pytest
from conftest import tiny_config

from gmi_drl.comm.reductions.single import NoReduction
from gmi_drl.config.learners import PPOConfig
from gmi_drl.roles.training.iteration_stats import Decision
from gmi_drl.tasks import make

pytest.importorskip("rsl_rl", reason="needs the extra [rsl-rl]")

from gmi_drl.config.learners.rsl_rl import RslRlConfig, runner_config
from gmi_drl.roles.rsl_rl.replica import RslRlReplica

PPO = PPOConfig(horizon=4, epochs=1, minibatches=2, hidden=(8,))
ITERATIONS = 3


class Wandb:
    """Stands in for the package, which the tests do not install."""

    def __init__(self, fails_at=None):
        self.calls, self.fails_at = [], fails_at
        self.config = SimpleNamespace(update=lambda values: self.take("config", values))
        self.Settings = lambda **settings: settings

    def take(self, name, *values):
        self.calls.append((name, *values))
        if name == self.fails_at:
            raise ConnectionError("no way to the service")

    def init(self, project, **more):
        self.take("init", project)

    def log(self, values, step):
        self.take("log", step)

    def save(self, path, base_path):
        self.take("save", path)

    def finish(self):
        self.take("finish")


def train(tmp_path, logger):
    """The warnings of a training with this logger."""
    config = tiny_config(learner=RslRlConfig(runner=runner_config(PPO) | {"logger": logger, "wandb_project": "ants"}))
    task = make("ant", num_env=4)
    replica = RslRlReplica(task, config, NoReduction(), sample_share=1.0, seed=1, log_dir=tmp_path)
    warnings = []
    for _ in range(ITERATIONS):
        replica.iterate(lambda: Decision.GO_ON)
        warnings += [told for name, told in replica.metrics().items() if name == "warning"]
    replica.export(tmp_path / "model_3.pt")
    replica.iteration_metrics.close()
    assert replica.runner.current_learning_iteration == ITERATIONS
    return warnings


def test_wandb_gets_configuration_numbers_models_and_an_end(tmp_path, monkeypatch):
    wandb = Wandb()
    monkeypatch.setattr("rsl_rl.utils.wandb_log_writer.wandb", wandb)
    assert train(tmp_path, "wandb") == []
    learner, worlds = (call[1] for call in wandb.calls if call[0] == "config")
    assert learner["train_cfg"]["algorithm"]["class_name"] == "PPO" and worlds["env_cfg"]["name"] == "ant"
    assert wandb.calls[0] == ("init", "ants") and wandb.calls[-1] == ("finish",)
    assert {call[1] for call in wandb.calls if call[0] == "log"} == set(range(ITERATIONS))
    assert ("save", str(tmp_path / "model_3.pt")) in wandb.calls


@pytest.mark.parametrize("moment", ["init", "config", "log"])
def test_wandb_may_fail_at_any_moment(tmp_path, monkeypatch, moment):
    wandb = Wandb(fails_at=moment)
    monkeypatch.setattr("rsl_rl.utils.wandb_log_writer.wandb", wandb)
    (warning,) = train(tmp_path, "wandb")
    assert "failed: ConnectionError: no way to the service: the run goes on without it" in warning
    assert wandb.calls[-1][0] == moment


@pytest.mark.parametrize("logger", ["nowhere.Writer", {"class_name": "nowhere:Writer"}, {"name": "wandb"}])
def test_a_logger_that_cannot_be_found_is_left_out(tmp_path, logger):
    assert len(train(tmp_path, logger)) == 1


def test_tensorboard_has_the_last_iteration(tmp_path):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    assert train(tmp_path, "tensorboard") == []
    events = EventAccumulator(str(tmp_path)).Reload().Scalars("Loss/surrogate")
    assert [event.step for event in events] == list(range(ITERATIONS))
