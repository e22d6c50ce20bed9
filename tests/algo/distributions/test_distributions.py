"""Distributions against torch.distributions, in float64."""

import pytest
import torch
from torch.distributions import Categorical, Independent, Normal, kl_divergence

from gmi_drl.algo.distributions import distribution_of
from gmi_drl.workload.spaces import Action

N = 64
ACTIONS = [
    Action(3),
    Action(0, (4,)),
    Action(0, (2, 2, 2)),
    Action(0, (3, 5, 2)),
    Action(2, (4,)),
    Action(1, (3, 5)),
]


def of_torch(action, params, log_std):
    """The same by torch: a Gaussian if there are numbers, and a distribution for each choice."""
    logits = params[..., action.numbers :].split(action.categories, -1) if action.categories else ()
    mean = params[..., : action.numbers]
    gaussian = [Independent(Normal(mean, log_std.exp().expand_as(mean)), 1)] if action.numbers else []
    return [*gaussian, *(Categorical(logits=one) for one in logits)]


def parts(action, row):
    numbers = [row[..., : action.numbers]] if action.numbers else []
    return [*numbers, *row[..., action.numbers :].unbind(-1)]


def random_params(action, seed):
    generator = torch.Generator().manual_seed(seed)
    params = 2 * torch.randn(N, action.params, generator=generator, dtype=torch.float64)
    return params, 0.5 * torch.randn(action.numbers, generator=generator, dtype=torch.float64)


@pytest.mark.parametrize("action", ACTIONS, ids=str)
def test_densities_entropies_and_kls_are_those_of_torch(action):
    ours, (params, log_std), (old, old_log_std) = distribution_of(action), *(random_params(action, s) for s in (0, 1))
    theirs, before = of_torch(action, params, log_std), of_torch(action, old, old_log_std)
    sampled = ours.sample(params, log_std, ours.noise((N,), torch.Generator().manual_seed(2), params.device).double())
    sampled = sampled.double()

    log_prob = sum(one.log_prob(part) for one, part in zip(theirs, parts(action, sampled), strict=True))
    kl = sum(kl_divergence(one, other) for one, other in zip(before, theirs, strict=True))
    entropy = sum(one.entropy() for one in theirs)

    near = {"rtol": 0, "atol": 1e-6}
    torch.testing.assert_close(ours.log_prob(sampled, params, log_std), log_prob, **near)
    torch.testing.assert_close(ours.kl(old, old_log_std, params, log_std), kl, **near)
    torch.testing.assert_close(ours.entropy(params, log_std).expand(N), entropy, **near)


@pytest.mark.parametrize("action", ACTIONS, ids=str)
def test_samples_have_the_distribution_and_zeros_give_the_mode(action):
    ours, draws = distribution_of(action), 40_000
    params, log_std = (one[..., :].float() for one in random_params(action, 3))
    noise = ours.noise((draws,), torch.Generator().manual_seed(0), params.device)
    sampled = ours.sample(params[:1].expand(draws, -1), log_std, noise)
    for one, part in zip(of_torch(action, params[0], log_std), parts(action, sampled), strict=True):
        if isinstance(one, Categorical):
            found = part.long().bincount(minlength=one.probs.numel()) / draws
            torch.testing.assert_close(found, one.probs, rtol=0, atol=0.015)
        else:
            torch.testing.assert_close(part.mean(0), one.mean, rtol=0, atol=0.05)
            torch.testing.assert_close(part.std(0), one.stddev, rtol=0.03, atol=0)
    assert torch.equal(ours.sample(params, log_std, torch.zeros_like(params)), ours.mode(params))


@pytest.mark.parametrize("action", [a for a in ACTIONS if a.categories], ids=str)
def test_what_is_masked_is_never_drawn_and_has_no_gradient(action):
    from gmi_drl.algo.distributions.categorical import MASKED

    ours = distribution_of(action)
    params, log_std = random_params(action, 4)
    params[:, action.numbers] = MASKED  # the first category of the first choice
    params.requires_grad_(True)
    sampled = ours.sample(params, log_std, ours.noise((N,), None, params.device).double())
    assert (sampled[:, action.numbers] != 0).all()
    others = ours.entropy(params, log_std) + ours.log_prob(sampled, params, log_std)
    others = others + ours.kl(params.detach(), log_std, params, log_std)
    others.sum().backward()
    assert params.grad.isfinite().all() and not params.grad[:, action.numbers].any()
