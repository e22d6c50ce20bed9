import torch

from gmi_drl.algo.rollout import Rollout, sample_share_of, split
from gmi_drl.config.learners import PPOConfig
from gmi_drl.layout.experience import RolloutForm
from gmi_drl.workload.spaces import continuous, vector

T, N = 5, 3
CONFIG = PPOConfig(gamma=0.9, lam=0.8, reward_scale=2.0)


def make(seed=0):
    generator = torch.Generator().manual_seed(seed)
    rollout = Rollout(RolloutForm(T, N, vector(2), continuous(1)), torch.device("cpu"))
    rollout.reward.copy_(torch.randn(T, N, generator=generator))
    rollout.value.copy_(torch.randn(T, N, generator=generator))
    rollout.valid.fill_(1)
    return rollout, torch.randn(N, generator=generator)


def by_definition(rollout, last_value, n):
    """Advantages of one world, forward sums of discounted errors, each cut at the end of its episode."""
    values = [*rollout.value[:, n].tolist(), last_value[n].item()]
    errors = []
    for t in range(T):
        follow = rollout.bootstrap[t, n].item() if rollout.done[t, n] else values[t + 1]
        errors.append(2.0 * rollout.reward[t, n].item() + 0.9 * follow - values[t])
    advantages = []
    for start in range(T):
        total, weight = 0.0, 1.0
        for t in range(start, T):
            total += weight * errors[t]
            weight *= 0.9 * 0.8
            if rollout.done[t, n]:
                break
        advantages.append(total)
    return torch.tensor(advantages)


def test_advantages_follow_the_definition():
    rollout, last_value = make()
    rollout.done[1, 0] = 1  # terminated
    rollout.done[2, 1], rollout.bootstrap[2, 1] = 1, 1.5  # timed out
    rollout.advantages(last_value, CONFIG)
    for n in range(N):
        torch.testing.assert_close(rollout.advantage[:, n], by_definition(rollout, last_value, n))
    torch.testing.assert_close(rollout.returns, rollout.advantage + rollout.value)


def test_an_environment_that_went_wrong_changes_no_parameters():
    rollout, last_value = make()
    rollout.done[3, 0], rollout.valid[3, 0], rollout.reward[3, 0] = 1, 0, 0
    rollout.advantages(last_value, CONFIG)
    assert rollout.advantage[3, 0] == 0
    before = 2.0 * rollout.reward[2, 0] + 0.9 * rollout.value[3, 0] - rollout.value[2, 0]
    torch.testing.assert_close(rollout.advantage[2, 0], before)
    count, mean, m2 = rollout.advantage_moments()
    rollout.normalise_advantages(mean.item(), (m2 / (count - 1)).sqrt().item())
    valid = rollout.advantage[rollout.valid.bool()]
    assert count == T * N - 1 and rollout.advantage[3, 0] == 0
    torch.testing.assert_close(valid.mean(), torch.tensor(0.0), atol=1e-6, rtol=0)
    torch.testing.assert_close(valid.std(), torch.tensor(1.0))


def test_mini_batches_are_a_permutation_cut_in_equal_views():
    rollout, _ = make()
    rollout.log_prob.copy_(torch.arange(T * N).view(T, N))
    permutation = torch.randperm(T * N)
    whole = rollout.empty_batch()
    rollout.shuffle(permutation, into=whole)
    assert torch.equal(whole.log_prob, permutation.float())
    parts = split(whole, 4)
    assert [part.log_prob.shape[0] for part in parts] == [3, 3, 3, 3]
    assert torch.equal(torch.cat([part.log_prob for part in parts]), permutation[:12].float())
    assert parts[1].obs.data_ptr() == whole.obs[3:].data_ptr()


def test_shares_are_of_the_samples_that_are_used_and_of_all_where_none_is_left_over():
    assert [sample_share_of(mine, (9, 39), 4) for mine in (9, 39)] == [2 / 11, 9 / 11]
    assert [sample_share_of(16 * worlds, (48, 208), 4) for worlds in (3, 13)] == [3 / 16, 13 / 16]
