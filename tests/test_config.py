import pytest

from gmi_drl.config import RunConfig, apply_settings, default_config
from gmi_drl.errors import UsageError
from gmi_drl.workload import TASK_SPECS, TaskSpec


def test_settings_reach_their_places():
    config = apply_settings(
        RunConfig(), ["learner.learning_rate=3e-4", "iterations=7", "time_limit_s=null", "learner.schedule=fixed"]
    )
    assert config.learner.learning_rate == 3e-4 and config.iterations == 7 and config.learner.schedule == "fixed"
    assert config.learner.gamma == RunConfig().learner.gamma


def test_a_task_without_settings_of_its_own_gets_the_defaults():
    bare = TaskSpec("bare", "B", 1, 1, RunConfig().learner.hidden, episode_steps=1, step_s=1.0)
    assert default_config(bare) == RunConfig()


@pytest.mark.parametrize("name", ["hidden", "reward_scale", "init_std", "minibatches", "epochs", "desired_kl"])
def test_a_new_run_gets_what_suits_its_task(name):
    hand = TASK_SPECS["shadow_hand"]
    assert getattr(default_config(hand).learner, name) == getattr(hand, name) != getattr(RunConfig().learner, name)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (["learner.learning_rat=1"], "did you mean 'learning_rate'"),
        (["learner.gamma=1.5", "iterations=0"], "2 mistakes"),
        (["iterations"], "expected KEY=VALUE"),
        (["iterations.x=1"], "iterations is a single value"),
        (["ppo=3"], "ppo"),
        (["learner.gamma=[1"], "not valid YAML"),
        (["learner.learning_rate=nan"], "valid number"),
        (["learner.learning_rate=.inf"], "learner.learning_rate"),
        (["iterations=yes"], "valid integer"),
        (["learner.gamma=2024-99-99"], "valid number"),
        (["learner.gamma=0b_"], "not valid YAML"),
    ],
)
def test_wrong_settings_are_named(settings, message):
    with pytest.raises(UsageError, match=message):
        apply_settings(RunConfig(), settings)
