"""Updates of our A3C beside those of a plain reference, in all of their steps."""

import pytest
import torch
from a3c_reference import A3CReference
from experience_made import CONFIG, SEEN, N, flat, make_a3c, make_batch, make_behaviour, make_normaliser
from rollouts import make_policy

from gmi_drl.algo.a3c import A3C
from gmi_drl.config.learners import A3CConfig

SMALL = (16, 8)
"""Hidden layers: a step of Adam has no scale, so that of many thousand gradients one is rounding, and goes anywhere."""


def both_learn(config, policy, batches):
    """Our learner and the reference, after updates by the same batches, and the gradients of our steps."""
    reference = A3CReference(config, policy.actor, policy.log_std, policy.critic, SEEN)
    gradients, parameters = [], policy.parameters_in_order()
    ours = A3C(policy, make_normaliser(), config)
    ours.reduce = lambda bucket: gradients.append(torch.cat([one.grad.flatten() for one in parameters]))
    for batch in batches:
        ours.update(batch)
        reference.update(batch)
    return ours, reference, gradients


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"vtrace": False, "clip": None, "schedule": "fixed"},
        {"rho_clip": 2.0, "c_clip": 0.9, "desired_kl": 1.0},
        {"minibatches": 7, "entropy_coef": 0.05, "reward_scale": 0.5, "gamma": 0.9},
        {"max_grad_norm": 1e3, "value_loss_coef": 1.0, "reward_scale": 0.5},
    ],
    ids=str,
)
def test_all_steps_of_updates_are_those_of_a_plain_reference(settings):
    """By default 16 steps with a learning rate that is adapted, by slices that leave some transitions out."""
    config, policy = A3CConfig(**settings), make_policy(hidden=SMALL)
    behaviour, before = make_behaviour(policy), flat(policy)
    batches = [make_batch(behaviour, seed=seed, num_env=3 * N + 1) for seed in (1, 2)]
    ours, reference, gradients = both_learn(config, policy, batches)
    assert len(gradients) == 2 * config.minibatches
    for found, expected in zip(gradients, reference.gradients, strict=True):
        torch.testing.assert_close(found.double(), expected, atol=1e-5, rtol=0)
    torch.testing.assert_close(flat(ours.policy).double(), reference.flat(), atol=1e-5, rtol=0)
    assert ours.learning_rate.item() == pytest.approx(reference.learning_rate, rel=1e-5)
    assert (flat(ours.policy) - before).abs().mean() > config.learning_rate  # it did learn something


@pytest.mark.parametrize("settings", [{}, {"max_grad_norm": 1e3}, {"vtrace": False, "clip": None}], ids=str)
def test_so_is_a_step_of_the_networks_of_ant(settings):
    config, policy = CONFIG.model_copy(update={**settings, "learning_rate": 5e-5}), make_policy()
    ours, reference, (gradient,) = both_learn(config, policy, [make_batch(make_behaviour())])
    torch.testing.assert_close(gradient.double(), reference.gradients[0], atol=1e-5, rtol=0)
    difference = (flat(ours.policy).double() - reference.flat()).abs()
    assert difference.max() < 1e-5 and difference.mean() < 1e-8


def test_with_ratios_of_1_an_update_is_by_n_step_returns_bit_for_bit():
    """As they are where the learner itself has told the densities: those of an agent are the same but for rounding."""
    batch, learners = (
        make_batch(make_policy()),
        [make_a3c(CONFIG.model_copy(update={"vtrace": is_on})) for is_on in (True, False)],
    )
    experience, _ = learners[0]._memory_for(batch)
    experience.fill(batch, learners[0].normaliser)
    policy, samples = learners[0].policy, experience.samples
    with torch.no_grad():
        batch.log_prob.copy_(experience.in_time(policy.log_prob(samples.action, policy.actor(samples.obs))))
    for learner in learners:
        learner.update(batch)
    corrected, plain = (learner._memory[0].samples for learner in learners)
    assert torch.equal(corrected.target, plain.target) and torch.equal(corrected.advantage, plain.advantage)
    assert torch.equal(*(learner.flat.vector for learner in learners))
    assert not torch.equal(flat(policy), flat(make_policy()))
