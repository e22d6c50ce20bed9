import math
import threading
import weakref

import pytest
import torch
from rollouts import SPEC, N, T, make_policy, make_rollout, normalise

from gmi_drl.algo import flat_learner as module
from gmi_drl.algo.flat_parameters import tensor_digest
from gmi_drl.algo.ppo import PPO
from gmi_drl.algo.rollout import BATCH, Rollout, sample_share_of
from gmi_drl.config.learners import PPOConfig
from gmi_drl.layout.experience import RolloutForm


def test_metrics_have_learning_rate_entropy_and_noise():
    policy = make_policy()
    with torch.no_grad():
        policy.log_std.copy_(torch.linspace(-1, 0, len(policy.log_std)))
    told = PPO(policy, PPOConfig(learning_rate=0.25)).metrics()
    assert told["learning_rate"] == 0.25 and told["entropy"] == policy.entropy().item()
    assert told["action_std"] == pytest.approx(policy.log_std.exp().mean().item())


def test_update_improves_what_it_minimises():
    policy = make_policy()
    ppo, rollout = PPO(policy, PPOConfig(epochs=1, learning_rate=3e-4)), make_rollout(policy)
    normalise(rollout)
    losses = []
    for _ in range(6):
        ppo.update(rollout, torch.randperm(T * N))
        losses.append(ppo.metrics())
    assert (
        losses[-1]["surrogate_loss"] < losses[0]["surrogate_loss"]
        and losses[-1]["value_loss"] < losses[0]["value_loss"]
    )


@pytest.mark.parametrize(("kl", "expected"), [(0.03, 1e-3 / 1.5), (0.01, 1e-3), (0.001, 1.5e-3), (0.0, 1e-3)])
def test_learning_rate_follows_the_kl(kl, expected):
    ppo = PPO(make_policy(), PPOConfig(desired_kl=0.01, learning_rate=1e-3))
    ppo._adapt_learning_rate(torch.tensor(kl))
    assert ppo.learning_rate.item() == pytest.approx(expected)


@pytest.mark.parametrize(("rate", "kl"), [(1e-2, 0.001), (1e-5, 0.03)])
def test_the_learning_rate_stays_within_its_bounds(rate, kl):
    ppo = PPO(make_policy(), PPOConfig(desired_kl=0.01, learning_rate=rate))
    ppo._adapt_learning_rate(torch.tensor(kl))
    assert ppo.learning_rate.item() == pytest.approx(rate)


def test_a_policy_is_compared_with_itself_as_it_was_before_the_update():
    policy = make_policy()
    ppo = PPO(policy, PPOConfig(epochs=1, minibatches=1, schedule="fixed", learning_rate=0.1, entropy_coef=1.0))
    for seed in (1, 2):
        rollout = make_rollout(policy, seed)
        ppo.update(rollout, torch.arange(T * N))
        assert ppo.metrics()["kl"] == pytest.approx(0, abs=1e-6)  # taken before the one step
    assert policy.log_std.abs().max() > 0.1


def test_a_policy_is_compared_with_the_one_that_acted_though_it_has_moved_on_since():
    """As an actor elsewhere may lag behind: what acted is told by the rollout."""
    policy = make_policy()
    ppo, rollout = PPO(policy, PPOConfig(epochs=1, minibatches=1)), make_rollout(policy)
    policy.log_std.data.add_(0.5)
    ppo.update(rollout, torch.arange(T * N))
    by_hand = SPEC.action.size * (0.5 + 0.5 * (math.exp(-1) - 1))
    assert ppo.metrics()["kl"] == pytest.approx(by_hand, rel=1e-4)


def test_rollouts_by_turns_need_no_new_memory_and_no_new_graphs(monkeypatch):
    made = []
    monkeypatch.setattr(module, "Captured", lambda function, *args, **more: made.append(function) or function)
    policy, config = make_policy(), PPOConfig(epochs=2, minibatches=4)
    ppo, rollouts = PPO(policy, config), [make_rollout(policy, seed) for seed in (1, 2)]
    gone = weakref.ref(rollouts[0])
    for rollout in 2 * rollouts:
        ppo.update(rollout, torch.arange(T * N))
    assert len(made) == 1 + config.minibatches  # Adam's step, and a gradient for each mini-batch
    rollouts.clear()
    del rollout
    assert gone() is None  # the update had a copy
    ppo.update(make_rollout(policy, num_env=2 * N), torch.arange(2 * T * N))
    assert len(made) == 1 + 2 * config.minibatches  # of another size: made anew
    ppo.release()
    assert made[-1] == ppo._apply  # Adam's step, too, without what was captured


def test_released_memory_is_made_again():
    first, second = PPO(make_policy(), PPOConfig()), PPO(make_policy(), PPOConfig())
    for ppo in (first, second):
        ppo.update(make_rollout(make_policy()), torch.arange(T * N))
    shuffled = weakref.ref(first._shuffled.obs)
    first.release()
    assert shuffled() is None
    for ppo in (first, second):
        ppo.update(make_rollout(make_policy(), seed=2), torch.arange(T * N))
    assert tensor_digest(first.flat.vector) == tensor_digest(second.flat.vector)


def test_a_mini_batch_without_finite_gradients_is_skipped_and_counted():
    policy = make_policy()
    ppo, rollout = PPO(policy, PPOConfig(epochs=1, minibatches=4)), make_rollout(policy)
    rollout.returns[0, 0] = float("nan")
    permutation = torch.arange(T * N)
    ppo.update(rollout, permutation)
    assert ppo.flat.vector.isfinite().all() and ppo.metrics()["skipped_updates"] == 1
    assert ppo.adam.steps == 3


def test_transitions_that_are_not_valid_do_not_change_the_update():
    digests = []
    for garbage in (0.0, 50.0):
        policy = make_policy()
        ppo, rollout = PPO(policy, PPOConfig()), make_rollout(policy)
        rollout.valid[2, 3] = 0
        rollout.advantage[2, 3], rollout.returns[2, 3] = garbage, garbage
        ppo.update(rollout, torch.arange(T * N))
        digests.append(tensor_digest(ppo.flat.vector))
    assert digests[0] == digests[1]


def test_saved_state_continues_bit_identically():
    policy, other = make_policy(), make_policy(seed=9)
    first, second = PPO(policy, PPOConfig()), PPO(other, PPOConfig())
    rollout, permutation = make_rollout(policy), torch.arange(T * N)
    first.update(rollout, permutation)
    second.load_state_dict({name: tensor.clone() for name, tensor in first.state_dict().items()})
    for ppo in (first, second):
        ppo.update(rollout, permutation)
    assert tensor_digest(first.flat.vector) == tensor_digest(second.flat.vector)


def halves(rollout):
    """The same experience as two GMIs would hold it: worlds 0..N/2-1 and the rest."""
    parts = []
    for worlds in (slice(0, N // 2), slice(N // 2, N)):
        part = Rollout(RolloutForm(T, N // 2, SPEC.observation, SPEC.action), torch.device("cpu"))
        for name in BATCH:
            getattr(part, name).copy_(getattr(rollout, name)[:, worlds])
        part.log_std.copy_(rollout.log_std)
        parts.append(part)
    return parts


def test_two_gmis_with_half_the_environments_learn_the_same():
    """Issue: 2 GMIs x n/2 environments agree with 1 GMI x n within 1e-5 for one update with pooled normalisation."""
    config, minibatches = PPOConfig(epochs=2), 4
    policy = make_policy()
    rollout = make_rollout(policy)
    normalise(rollout)
    parts = halves(rollout)
    whole = PPO(policy, config)
    replicas = [PPO(make_policy(), config, sample_share=0.5) for _ in parts]
    orders = [torch.randperm(T * N // 2, generator=torch.Generator().manual_seed(3)) for _ in parts]
    batches = zip(*(order.chunk(minibatches) for order in orders), strict=True)
    order = torch.cat([torch.cat([to_whole(half, rank) for rank, half in enumerate(batch)]) for batch in batches])
    whole.update(rollout, order)
    run_in_step(replicas, parts, orders)
    torch.testing.assert_close(replicas[0].flat.vector, whole.flat.vector, atol=1e-5, rtol=0)
    assert tensor_digest(replicas[0].flat.vector) == tensor_digest(replicas[1].flat.vector)
    assert (whole.flat.vector - make_flat(make_policy())).abs().max() > 1e-3  # it did learn something


def first_bucket(rollout, config, sample_share=1.0):
    """The gradient of the first mini-batch, and what is summed with it, as they go into the reduction."""
    buckets = []
    PPO(make_policy(), config, sample_share=sample_share, reduce=lambda b: buckets.append(b.clone())).update(
        rollout, torch.arange(rollout.horizon * rollout.num_env)
    )
    return buckets[0]


def test_unequal_gmis_weigh_every_sample_that_they_use_the_same():
    """3 and 13 worlds do not divide by 5 mini-batches: 4 and 20 of their 24 and 104 samples make up the first."""
    config, transitions = PPOConfig(epochs=1, minibatches=5), (3 * T, 13 * T)
    parts = [make_rollout(make_policy(), seed=n, num_env=n // T) for n in transitions]
    shares = [sample_share_of(n, transitions, config.minibatches) for n in transitions]
    both = sum(first_bucket(part, config, share) for part, share in zip(parts, shares, strict=True))
    used = Rollout(RolloutForm(1, sum(n // 5 for n in transitions), SPEC.observation, SPEC.action), torch.device("cpu"))
    for name in BATCH:
        first = [getattr(part, name).flatten(0, 1)[: n // 5] for part, n in zip(parts, transitions, strict=True)]
        getattr(used, name).copy_(torch.cat(first)[None])
    mean = first_bucket(used, config.model_copy(update={"minibatches": 1}))
    torch.testing.assert_close(both, mean, atol=1e-6, rtol=1e-4)
    assert sum(shares) == 1 and mean.abs().max() > 0.1


def to_whole(indices, rank):
    """Index of a half's transition `(t, n)` in the whole rollout."""
    t, n = indices // (N // 2), indices % (N // 2)
    return t * N + n + rank * (N // 2)


def make_flat(policy):
    return torch.cat([p.detach().reshape(-1) for p in policy.parameters_in_order()])


def run_in_step(replicas, parts, orders):
    """Run both updates in threads that meet in every reduction."""
    barrier, buckets = threading.Barrier(2), {}

    def reducer(rank):
        def reduce(bucket):
            buckets[rank] = bucket.clone()
            barrier.wait(30)
            bucket.copy_(buckets[0] + buckets[1])
            barrier.wait(30)

        return reduce

    for rank, replica in enumerate(replicas):
        replica.reduce = reducer(rank)
    threads = [threading.Thread(target=r.update, args=(p, o)) for r, p, o in zip(replicas, parts, orders, strict=True)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)


@pytest.mark.parametrize("clip_value_loss", [False, True])
def test_gradients_without_autograd_are_those_of_autograd_where_ratios_and_values_are_clipped_too(clip_value_loss):
    policy = make_policy()
    ppo = PPO(policy, PPOConfig(clip_value_loss=clip_value_loss, entropy_coef=0.1, value_loss_coef=0.7))
    ppo.sample_share, rollout = 0.3, make_rollout(policy)
    normalise(rollout)
    batch, noise = rollout.empty_batch(), torch.Generator().manual_seed(3)
    rollout.shuffle(torch.randperm(T * N, generator=noise), into=batch)
    for field in (batch.log_prob, batch.value, batch.returns, batch.advantage, batch.params):
        field += 0.4 * torch.randn(field.shape, generator=noise)
    batch.valid[::5] = 0
    ppo.old_log_std.copy_(policy.log_std.detach() - 0.2)
    ratio = (policy.log_prob(batch.action, policy.params_and_value(batch.obs)[0]) - batch.log_prob).exp()
    assert 0.2 < ((ratio - 1).abs() > 0.2).float().mean() < 0.9
    ppo._by_autograd(batch)
    expected = ppo.flat.bucket.clone()
    assert expected.abs().min() > 0
    ppo.flat.bucket.fill_(float("nan"))
    ppo._differentiate(batch)
    torch.testing.assert_close(ppo.flat.bucket, expected, rtol=1e-4, atol=1e-6)


def test_a_released_learner_keeps_nothing_of_the_last_mini_batch():
    policy = make_policy()
    ppo, rollout = PPO(policy, PPOConfig()), make_rollout(policy)
    ppo.update(rollout, torch.randperm(T * N))
    params = weakref.ref(ppo._plain.params)
    ppo.release()
    assert params() is None
