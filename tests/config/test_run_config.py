import pytest

from gmi_drl.config import run_config
from gmi_drl.config.run_config import RunConfig, acting_of, apply_settings, default_config
from gmi_drl.errors import UsageError
from gmi_drl.workload import TASK_SPECS, TaskSpec
from gmi_drl.workload.spaces import continuous, vector


def test_settings_reach_their_places():
    config = apply_settings(
        RunConfig(), ["learner.learning_rate=3e-4", "iterations=7", "time_limit_s=null", "learner.schedule=fixed"]
    )
    assert config.learner.learning_rate == 3e-4 and config.iterations == 7 and config.learner.schedule == "fixed"
    assert config.learner.gamma == RunConfig().learner.gamma


@pytest.mark.parametrize("kind", ["ppo", "a3c"])
def test_a_linear_rate_falls_to_nearly_nothing(kind):
    learner = apply_settings(default_config(TASK_SPECS["ant"], kind), ["learner.schedule=linear"]).learner
    rate = learner.learning_rate
    assert [learner.rate_at(iteration, 4) for iteration in (1, 2, 4)] == pytest.approx([rate, 0.75 * rate, rate / 4])
    assert default_config(TASK_SPECS["ant"], kind).learner.rate_at(1, 4) is None


def test_a_task_without_settings_of_its_own_gets_the_defaults():
    bare = TaskSpec("bare", "B", vector(1), continuous(1), RunConfig().learner.hidden, episode_steps=1, step_s=1.0)
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
        (["writers=[tensorbord]"], "there is no writer 'tensorbord'; did you mean 'tensorboard'"),
        (["writers=[wandb, wandb]"], "a writer is given twice"),
    ],
)
def test_wrong_settings_are_named(settings, message):
    with pytest.raises(UsageError, match=message):
        apply_settings(RunConfig(), settings)


NETWORK = {"class_name": "MLPModel", "distribution_cfg": {"class_name": "GaussianDistribution"}}
RUNNER = {"num_steps_per_env": 4, "actor": NETWORK, "critic": NETWORK, "algorithm": {}}


def test_rsl_rls_own_logger_and_our_writers_are_not_both_at_work():
    logs = {"learner": {"kind": "rsl_rl", "runner": RUNNER | {"logger": "wandb"}}}
    assert apply_settings(RunConfig(), [], over=logs).learner.runner["logger"] == "wandb"
    with pytest.raises(UsageError, match=r"writers and learner.runner.logger would write the same"):
        apply_settings(RunConfig(), ["writers=[tensorboard]"], over=logs)
    assert apply_settings(RunConfig(), ["writers=[tensorboard]", "learner.runner.logger=null"], over=logs).writers


def test_tensorboard_is_the_usual_writer_if_it_is_installed_and_the_learner_logs_nothing_itself(monkeypatch):
    monkeypatch.setattr(run_config, "find_spec", lambda name: name == "tensorboard")
    assert RunConfig().used_writers == ("tensorboard",) and RunConfig(writers=()).used_writers == ()
    logs = RunConfig(learner={"kind": "rsl_rl", "runner": RUNNER | {"logger": "wandb"}})
    assert logs.used_writers == ()
    monkeypatch.setattr(run_config, "find_spec", lambda name: None)
    assert RunConfig().used_writers == () and RunConfig(writers=("csv",)).used_writers == ("csv",)


@pytest.mark.parametrize("kind", ["ppo", "a3c"])
def test_an_agent_of_ours_acts_by_policies_of_our_learners(kind):
    config = default_config(TASK_SPECS["ant"], kind)
    assert acting_of(config) is config.learner


def test_an_agent_of_ours_does_not_act_by_a_policy_of_rsl_rl():
    with pytest.raises(UsageError, match="policies of ppo and a3c, the run has rsl_rl"):
        acting_of(default_config(TASK_SPECS["ant"], "rsl_rl"))
