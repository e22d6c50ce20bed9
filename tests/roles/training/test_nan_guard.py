import math

import pytest

from gmi_drl.config.learners import PPOConfig
from gmi_drl.errors import GmiError
from gmi_drl.roles.training.nan_guard import MOST, NanGuard

GOOD = {"value_loss": 0.5, "surrogate_loss": -0.1, "learning_rate": 1e-3, "warning": "x", "skipped_updates": 0.0}
STEPS = PPOConfig().epochs * PPOConfig().minibatches
BAD = GOOD | {"value_loss": math.nan, "skipped_updates": float(STEPS)}


def test_losses_that_stay_no_numbers_end_the_training_with_the_remedy():
    guard = NanGuard(PPOConfig(reward_scale=0.05))
    for iteration in range(1, MOST):
        guard.check(iteration, BAD)
    with pytest.raises(GmiError, match=r"iteration 5: .*value_loss nan, surrogate_loss -0.1.*now 0.001.*now 0.05"):
        guard.check(MOST, BAD)


def test_one_that_recovers_goes_on():
    guard = NanGuard(PPOConfig())
    for iteration in range(3 * MOST):
        guard.check(iteration, GOOD if iteration % MOST == 0 else BAD)


def test_an_iteration_in_which_some_steps_were_taken_goes_on():
    guard = NanGuard(PPOConfig())
    for iteration in range(3 * MOST):
        guard.check(iteration, BAD | {"skipped_updates": STEPS - 1.0})


def test_a_learner_that_skips_no_steps_ends_before_its_weights_are_saved():
    skips_none = {name: value for name, value in BAD.items() if name != "skipped_updates"}
    with pytest.raises(GmiError, match="iteration 7: losses were not finite for 1 iterations"):
        NanGuard(PPOConfig()).check(7, skips_none)
