import math
import threading
import weakref
from dataclasses import replace
from itertools import pairwise

import pytest
import torch
from experience_made import CONFIG, CPU, N, R, T, flat, make_a3c, make_batch, make_behaviour, make_normaliser
from rollouts import SPEC, make_policy

from gmi_drl.algo import flat_learner as module
from gmi_drl.algo.a3c import A3C
from gmi_drl.algo.experience_batch import ExperienceBatch
from gmi_drl.algo.flat_parameters import tensor_digest
from gmi_drl.benchmarks.cases.components.a3c_by_autograd import A3CByAutograd
from gmi_drl.config.learners import A3CConfig
from gmi_drl.errors import UsageError
from gmi_drl.layout.experience import RolloutForm


@pytest.mark.parametrize(
    "settings", [{"entropy_coef": 0.1}, {"vtrace": False}, {"clip": None, "rho_clip": 2.0}, {"minibatches": 3}], ids=str
)
def test_gradients_by_hand_are_those_of_autograd(settings):
    config, batch = CONFIG.model_copy(update=settings), make_batch(make_behaviour(), num_env=3 * N)
    buckets = []
    for learner in (A3C, A3CByAutograd):
        a3c = learner(make_policy(), make_normaliser(), config)
        a3c.update(batch)
        buckets.append(a3c.flat.bucket)
    torch.testing.assert_close(*buckets, atol=1e-6, rtol=1e-5)


def test_correcting_makes_a_difference_where_another_policy_acted_and_none_where_the_same_did():
    def learnt(behaviour, **more):
        a3c = make_a3c(CONFIG.model_copy(update=more))
        a3c.update(make_batch(behaviour))
        return a3c

    same, other = make_policy(), make_behaviour()
    gap = flat(learnt(other).policy) - flat(learnt(other, vtrace=False).policy)
    assert gap.abs().max() > 1e-4
    torch.testing.assert_close(flat(learnt(same).policy), flat(learnt(same, vtrace=False).policy), atol=1e-5, rtol=0)
    told = learnt(same).metrics()
    assert told["kl"] < 1e-8 and told["rho"] == pytest.approx(make_batch(same).valid.mean().item(), abs=1e-4)
    assert learnt(other).metrics()["rho"] < told["rho"] - 0.05


def test_an_action_that_has_become_likelier_or_rarer_as_asked_for_moves_the_policy_no_more():
    """Where all have moved far enough, or none may, only the values learn."""
    batch = make_batch(make_policy(), rollouts=1, num_env=1, wrong=0, ends=0)
    batch.reward.fill_(100)  # all were better than expected
    policies = []
    for moved in (0.3, 0.1, -0.3):  # of the log probability, since they acted
        a3c, now = (
            make_a3c(CONFIG.model_copy(update={"entropy_coef": 0.0})),
            replace(batch, log_prob=batch.log_prob - moved),
        )
        before = flat(a3c.policy)
        a3c.update(now)
        policies.append((flat(a3c.policy) - before)[: a3c.policy.actor_size].abs().max().item())
    assert policies[0] == 0 and min(policies[1:]) > 5e-5


def test_the_estimated_kl_is_about_that_of_the_distributions():
    policy = make_policy()
    with torch.no_grad():
        policy.actor[-1].bias.add_(0.1)
        policy.log_std.add_(0.03)
    a3c = make_a3c()
    a3c.update(make_batch(policy, num_env=400, wrong=0))
    by_formula = SPEC.action.size * (-0.03 + (math.exp(0.06) + 0.1**2) / 2 - 0.5)
    assert a3c.metrics()["kl"] == pytest.approx(by_formula, rel=0.1)


@pytest.mark.parametrize(("desired_kl", "times"), [(1e6, 1.5), (1e-6, 1 / 1.5)])
def test_the_learning_rate_follows_the_kl_by_one_factor_in_an_update(desired_kl, times):
    a3c = make_a3c(A3CConfig(desired_kl=desired_kl, minibatches=4))
    a3c.update(make_batch(make_behaviour()))
    assert a3c.metrics()["learning_rate"] == pytest.approx(times * A3CConfig().learning_rate, rel=1e-5)


def test_update_improves_what_it_minimises():
    a3c, batch = (
        make_a3c(CONFIG.model_copy(update={"minibatches": 4, "learning_rate": 3e-4})),
        make_batch(make_policy()),
    )
    losses = []
    for _ in range(6):
        a3c.update(batch)
        losses.append(a3c.metrics())
    assert losses[-1]["value_loss"] < losses[0]["value_loss"] and losses[-1]["rho"] < losses[0]["rho"]


def test_estimates_in_time_go_to_their_samples():
    """Whatever the order of the samples, and whichever slice they are in."""
    a3c, batch = make_a3c(CONFIG.model_copy(update={"minibatches": 4})), make_batch(make_policy())
    experience, judge = a3c._memory_for(batch)
    experience.fill(batch, a3c.normaliser)
    judge()
    samples = experience.samples
    assert not torch.equal(samples.log_prob, batch.log_prob.flatten())
    assert torch.equal(experience.in_time(samples.log_prob), batch.log_prob)
    assert torch.equal(experience.in_time(samples.obs[:, 7]), make_normaliser()(batch.obs)[..., 7])
    with torch.no_grad():
        value = a3c.policy.value(make_normaliser()(batch.obs))
    wrong = batch.valid == 0
    torch.testing.assert_close(experience.in_time(samples.target)[wrong], value[wrong])
    parts = samples.split(5)
    assert [len(part.obs) for part in parts] == [R * T * N // 5] * 5
    assert torch.equal(parts[2].action, samples.action[2 * 19 : 3 * 19])


def test_a_batch_is_free_as_soon_as_the_first_gradient_is_summed():
    digests = []
    for spoils in (False, True):
        batch = make_batch(make_policy())
        a3c = make_a3c(CONFIG.model_copy(update={"minibatches": 4}))
        a3c.reduce = lambda bucket, batch=batch, spoils=spoils: batch.obs.fill_(float("nan")) if spoils else None
        a3c.update(batch)
        digests.append(tensor_digest(a3c.flat.vector))
    assert digests[0] == digests[1]


def test_batches_by_turns_need_no_new_memory_and_no_new_graphs(monkeypatch):
    made = []
    monkeypatch.setattr(module, "Captured", lambda function, *args, **more: made.append(function) or function)
    a3c, batches = (
        make_a3c(CONFIG.model_copy(update={"minibatches": 4})),
        [make_batch(make_policy(), seed=s) for s in (1, 2)],
    )
    for batch in 2 * batches:
        a3c.update(batch)
    assert len(made) == 2 + 4  # Adam's step, a judgement, and a gradient for each slice
    a3c.update(make_batch(make_policy(), rollouts=3))
    assert len(made) == 1 + 2 * 5  # of another size: made anew
    a3c.release()
    assert made[-1] == a3c._apply  # Adam's step, too, without what was captured


def test_released_memory_is_made_again():
    first, second = make_a3c(), make_a3c()
    for a3c in (first, second):
        a3c.update(make_batch(make_policy()))
    memory = weakref.ref(first._memory[0].samples.obs)
    first.release()
    assert memory() is None
    for a3c in (first, second):
        a3c.update(make_batch(make_policy(), seed=2))
    assert tensor_digest(first.flat.vector) == tensor_digest(second.flat.vector)


def test_fewer_transitions_than_slices_are_refused_with_the_numbers():
    with pytest.raises(UsageError, match=r"96 transitions are too few for 97 slices: .*--set learner.minibatches=96"):
        make_a3c(CONFIG.model_copy(update={"minibatches": 97})).update(make_batch(make_policy()))


def test_a_slice_without_finite_gradients_is_skipped_and_counted():
    a3c, batch = make_a3c(CONFIG.model_copy(update={"minibatches": 4})), make_batch(make_policy(), wrong=0)
    batch.reward[0, 0, 0] = float("nan")
    a3c.update(batch)
    assert a3c.flat.vector.isfinite().all() and a3c.metrics()["skipped_updates"] == 1 and a3c.adam.steps == 3


def test_saved_state_continues_bit_identically():
    batch, first, second = make_batch(make_policy()), make_a3c(), make_a3c()
    first.update(batch)
    second.load_state_dict({name: tensor.clone() for name, tensor in first.state_dict().items()})
    for a3c in (first, second):
        a3c.update(batch)
    assert tensor_digest(first.flat.vector) == tensor_digest(second.flat.vector)


def part_of(batch, worlds):
    """The same experience of some of the worlds."""
    size = len(range(N)[worlds])
    part = ExperienceBatch.empty(RolloutForm(T, size, SPEC.observation, SPEC.action), R, CPU)
    for name in ("obs", "action", "log_prob", "reward", "done", "valid", "bootstrap"):
        getattr(part, name).copy_(getattr(batch, name)[:, :, worlds])
    part.last_obs.copy_(batch.last_obs[:, worlds])
    return part


def update_in_step(replicas, parts):
    """Run updates in threads that meet in every reduction."""
    barrier, buckets = threading.Barrier(len(replicas)), {}

    def reducer(rank):
        def reduce(bucket):
            buckets[rank] = bucket.clone()
            barrier.wait(30)
            bucket.copy_(sum(buckets[other] for other in sorted(buckets)))
            barrier.wait(30)

        return reduce

    for rank, replica in enumerate(replicas):
        replica.reduce = reducer(rank)
    threads = [threading.Thread(target=a3c.update, args=(part,)) for a3c, part in zip(replicas, parts, strict=True)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)


@pytest.mark.parametrize("cuts", [(0, N // 2, N), (0, 2, N)], ids=["halves", "a quarter and the rest"])
def test_trainers_with_parts_of_a_batch_learn_as_one_with_all(cuts):
    batch, whole = make_batch(make_behaviour()), make_a3c()
    whole.update(batch)
    slices = [slice(*ends) for ends in pairwise(cuts)]
    replicas = [make_a3c(sample_share=(part.stop - part.start) / N) for part in slices]
    update_in_step(replicas, [part_of(batch, part) for part in slices])
    torch.testing.assert_close(replicas[0].flat.vector, whole.flat.vector, atol=1e-5, rtol=0)
    assert tensor_digest(replicas[0].flat.vector) == tensor_digest(replicas[1].flat.vector)
    assert replicas[0].metrics() == pytest.approx(whole.metrics(), rel=1e-4)
