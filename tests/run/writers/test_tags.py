import inspect

import pytest

from gmi_drl.run.writers.tags import scalars

PHASES = {"sim_s": 0.4, "act_s": 0.1, "learn_s": 0.25, "sync_s": 0.5}
ROW = {
    "iteration": 7,
    "env_steps": 700,
    "reward_mean": 0.5,
    "episodes": 2.0,
    "return_sum": 10.0,
    "length_sum": 20.0,
    "bad_environments": 0.0,
    "surrogate_loss": -0.01,
    "value_loss": 0.2,
    "rnd_loss": 0.3,
    "kl": 0.02,
    "entropy": 1.5,
    "learning_rate": 1e-3,
    "action_std": 0.3,
    "steps_per_second": 1000.0,
    "return_mean": 5.0,
    "episode_length_mean": None,
    "collect_s": 0.5,
    "warning": "something",
    **PHASES,
    "reward_terms": {"alive": 0.5, "energy": -0.1},
    "gmis": {"0": PHASES, "1": PHASES},
}
RSL_RLS = {
    "Train/mean_reward": 5.0,
    "Perf/total_fps": 1000.0,
    "Perf/collection_time": 0.5,
    "Perf/learning_time": 0.75,
    "Loss/surrogate": -0.01,
    "Loss/value": 0.2,
    "Loss/rnd": 0.3,
    "Loss/entropy": 1.5,
    "Loss/kl": 0.02,
    "Loss/learning_rate": 1e-3,
    "Policy/mean_std": 0.3,
}
OURS = {
    "Reward/mean": 0.5,
    "Reward/alive": 0.5,
    "Reward/energy": -0.1,
    "GMI/env_steps": 700.0,
    "GMI/episodes": 2.0,
    "GMI/bad_environments": 0.0,
    **{f"GMI/{name}": seconds for name, seconds in PHASES.items()},
    **{f"GMI/{gmi}/{name}": seconds for gmi in (0, 1) for name, seconds in PHASES.items()},
}


def test_every_number_has_its_tag_and_what_is_null_has_none():
    assert scalars(ROW) == RSL_RLS | OURS


def test_evaluations_have_tags_of_their_own():
    tags = scalars(ROW | {"eval_return_mean": 3.0, "eval_length_mean": 4.0})
    assert (tags["Eval/mean_reward"], tags["Eval/mean_episode_length"]) == (3.0, 4.0)


def test_an_episode_length_is_rsl_rls():
    assert scalars(ROW | {"episode_length_mean": 9.0})["Train/mean_episode_length"] == 9.0


def test_tags_are_those_of_the_installed_rsl_rl():
    logger = pytest.importorskip("rsl_rl.utils.logger", reason="needs the extra [rsl-rl]")
    text = inspect.getsource(logger)
    theirs = {tag for tag in {*RSL_RLS, "Train/mean_episode_length"} if f'"{tag}"' in text}
    by_name = {"Loss/surrogate", "Loss/value", "Loss/rnd", "Loss/entropy", "Loss/kl"}
    assert theirs | by_name == {*RSL_RLS, "Train/mean_episode_length"} and 'f"Loss/{key}"' in text


def test_gpus_have_tags_of_their_own():
    found = scalars(ROW | {"devices": {"gpu0": {"sm_util": 41.0}, "gpu0/gi2": {"sm_util": 7.0}}})
    assert found["Device/gpu0/sm_util"] == 41.0 and found["Device/gpu0/gi2/sm_util"] == 7.0
