import pytest
from conftest import tiny_layout

from gmi_drl.config.learners import PPOConfig, RslRlConfig, entries
from gmi_drl.config.learners.rsl_rl import runner_config
from gmi_drl.config.run_config import RunConfig, default_config
from gmi_drl.errors import MachineError, UsageError
from gmi_drl.profiler.measurable import measurable
from gmi_drl.profiler.session import Session
from gmi_drl.templates import TCG, TCG_EX
from gmi_drl.workload import TASK_SPECS

ANT = TASK_SPECS["ant"]
OURS = PPOConfig(horizon=24, epochs=5, minibatches=3, hidden=(7, 7), activation="tanh", gamma=0.9)
THEIRS = RunConfig(seed=3, learner=RslRlConfig(runner=runner_config(OURS), reward_scale=0.5))


def measured(config, template=TCG_EX):
    told = []
    return measurable(ANT, config, template, told.append), told


@pytest.fixture
def without_probe(monkeypatch):
    """Nobody can measure a training; what learners need is installed."""
    monkeypatch.setattr(entries, "version", lambda package: "5.4")
    monkeypatch.setattr(type(TCG_EX), "probe", lambda self, learner: None)


def test_a_learner_with_a_probe_is_measured_as_it_is():
    for kind in ("ppo", "rsl_rl"):
        config = default_config(ANT, kind)
        assert measured(config) == (config, [])
        assert Session(tiny_layout(1), config).roles == {0: entries.LEARNERS.find(kind).probe}


def test_our_ppo_stands_for_one_that_brings_none_with_as_much_to_do(without_probe):
    config, (told,) = measured(THEIRS)
    learner = config.learner
    assert told.startswith("rsl_rl has no probe: the speed and memory of our PPO are measured in its place")
    assert learner.kind == "ppo" and learner.gamma == PPOConfig().gamma and config.seed == 3
    assert (learner.horizon, learner.epochs, learner.minibatches, learner.hidden) == (24, 5, 3, (7, 7))
    assert learner.reward_scale == 0.5
    with pytest.raises(UsageError, match="rsl_rl has no probe"):
        Session(tiny_layout(1), THEIRS)


def test_who_serves_is_measured_whatever_has_learnt(without_probe):
    assert measured(RunConfig(), TCG) == (RunConfig(), [])


def test_what_the_learner_needs_must_be_there(monkeypatch):
    monkeypatch.setattr(entries, "version", lambda package: "1.0")
    for probe in ("toy:Probe", None):
        monkeypatch.setattr(type(TCG_EX), "probe", lambda self, learner, probe=probe: probe)
        with pytest.raises(MachineError, match=r"needs rsl-rl-lib 5\.4, not 1\.0"):
            measured(THEIRS)
