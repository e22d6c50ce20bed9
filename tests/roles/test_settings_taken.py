"""What a run that goes on does with each setting of its learner, by the weights that it learns."""

from functools import cache

import pytest
import torch
from conftest import tiny_config
from other_settings import PPO, RSL_RL

from gmi_drl.algo.flat import tensor_digest
from gmi_drl.comm.reductions.alone import Solo
from gmi_drl.config import apply_settings
from gmi_drl.learners import PPOConfig, RslRlConfig
from gmi_drl.learners.rsl_rl import runner_config
from gmi_drl.roles.agreement import Word
from gmi_drl.roles.replica import Replica
from gmi_drl.settings import leaves
from gmi_drl.tasks import make

N = 4
OURS = PPOConfig(horizon=4, epochs=2, minibatches=2, hidden=(8,), clip=0.05)
CONFIG = tiny_config(learner=OURS)
THEIRS = tiny_config(learner=RslRlConfig(runner=runner_config(OURS)))
OF_NO_WEIGHTS = ("check_for_nan", "logger", "run_name", "wandb_project", "neptune_project")
NEED_MORE = ("torch_compile_mode", "algorithm.symmetry_cfg", "algorithm.use_mixed_precision")
"""A compiler and a minute; a robot that is symmetric; a GPU."""


def ours(config):
    replica = Replica(make("ant", num_env=N).spec, config, Solo(), sample_share=1.0, device=torch.device("cpu"), seed=0)
    replica.enter_worlds(make("ant", num_env=N, seed=1), seed=2)
    return replica


def theirs(config):
    from gmi_drl.roles.rsl_rl.replica import RslRlReplica

    torch.manual_seed(1)
    return RslRlReplica(make("ant", num_env=N, seed=1), config, Solo(), sample_share=1.0, seed=1, log_dir=None)


def task_of(replica):
    return replica.env.task if hasattr(replica, "env") else replica.actor.task


def gone_on(made, base, config):
    """The digest of a learner that goes on by other settings from what the first ones have learnt."""
    first = made(base)
    first.iterate(lambda: Word.GO_ON)
    learnt, worlds = first.learner_state(), first.worlds_state()
    second = made(config)
    second.load_learner_state(learnt)
    if base.learner.learning_rate != config.learner.learning_rate:
        second.set_learning_rate(config.learner.learning_rate)
    second.load_worlds_state(worlds)
    task = task_of(second)
    task.episode_length.fill_(task.spec.episode_steps - 2)  # so that time-outs come
    second.iterate(lambda: Word.GO_ON)
    return tensor_digest(*second.learner_state().values())


def live(base, values):
    """Settings that another value is taken of."""
    counts = {place for place, leaf in leaves(base) if not (leaf.setting.fixed or leaf.setting.idle)}
    counts -= {f"learner.runner.{key}" for key in NEED_MORE}
    return [(place, text) for place, text in values.items() if place in counts]


@pytest.fixture(scope="module")
def unchanged():
    """What the same runs learn by the same settings."""
    return cache(lambda made: gone_on(made, *2 * (CONFIG if made is ours else THEIRS,)))


@pytest.mark.parametrize(("place", "text"), live(CONFIG, PPO))
def test_ppo_learns_otherwise_by_each_setting_that_counts(unchanged, place, text):
    assert gone_on(ours, CONFIG, apply_settings(CONFIG, [f"{place}={text}"])) != unchanged(ours)


@pytest.mark.parametrize(("place", "text"), live(THEIRS, RSL_RL))
def test_rsl_rl_learns_otherwise_by_each_setting_that_counts(unchanged, place, text):
    pytest.importorskip("rsl_rl", reason="needs the extra [rsl-rl]")
    differs = gone_on(theirs, THEIRS, apply_settings(THEIRS, [f"{place}={text}"])) != unchanged(theirs)
    assert differs == (place.removeprefix("learner.runner.") not in OF_NO_WEIGHTS)


def test_what_only_a_new_run_begins_with_changes_nothing_later(unchanged):
    other = apply_settings(CONFIG, [f"learner.init_std={PPO['learner.init_std']}"])
    assert gone_on(ours, CONFIG, other) == unchanged(ours)
