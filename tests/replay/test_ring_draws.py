"""Draws of a ring as on a GPU, on tensors of the CPU."""

import pytest
import torch

from gmi_drl.errors import UsageError
from gmi_drl.replay.ring_draws import PrioritizedDraws, UniformDraws
from gmi_drl.replay.selectors import Prioritized
from tests.replay.test_ring import STEPS, History, N, add, made


@pytest.fixture
def make_ring(monkeypatch):
    """A ring that draws as on a GPU."""

    def uniform(generator):
        return UniformDraws(generator, STEPS * N, torch.device("cpu"))

    monkeypatch.setattr("gmi_drl.replay.ring_draws.HostUniformDraws", uniform)
    monkeypatch.setattr("gmi_drl.replay.ring_draws.HostPrioritizedDraws", PrioritizedDraws)
    return made


@pytest.mark.parametrize("n_step", [1, 3])
def test_just_the_valid_windows_are_drawn_each_as_likely(make_ring, n_step):
    ring, history = make_ring(n_step), History(5)
    for _ in range(2 * STEPS):
        add(ring, history)
    wanted = history.windows(n_step, is_twice=False)
    batch = ring.sample(20_000)
    keys, counts = batch.keys.unique(return_counts=True)
    assert {divmod(key, N) for key in keys.tolist()} == set(wanted)
    share = 20_000 / len(wanted)
    assert float(((counts - share) ** 2 / share).sum()) / (len(wanted) - 1) < 3
    assert batch.fields["reward"].tolist() == [wanted[divmod(key, N)][0] for key in batch.keys.tolist()]
    assert batch.weights(0.5).tolist() == [1.0] * 20_000


def test_a_single_valid_window_is_found(make_ring):
    """Among so many others that a few tries would not."""
    ring, history = make_ring(1), History(5, ends=0, invalid=1.0)
    for step in range(STEPS):
        history.invalid = 0.0 if step == 4 else 1.0
        add(ring, history)
    assert {key // N for key in ring.sample(1).keys.tolist() + ring.sample(2).keys.tolist()} == {4}


@pytest.mark.parametrize("sampler", [None, Prioritized(0.6)], ids=["uniform", "prioritized"])
def test_rewards_are_no_numbers_if_no_window_is_valid(make_ring, sampler):
    ring, history = make_ring(1, sampler=sampler), History(1, invalid=1.0)
    for _ in range(4):
        add(ring, history)
    assert ring.sample(5).fields["reward"].isnan().all()
    history.invalid = 0.0
    for _ in range(4):
        add(ring, history)
    assert not ring.sample(5).fields["reward"].isnan().any()


def test_a_ring_goes_on_from_its_state(make_ring):
    ring, again, history = make_ring(2), make_ring(2), History(3)
    for _ in range(STEPS + 4):
        add(ring, history)
    ring.sample(5)
    with ring.snapshot() as state:
        again.load_state_dict(state)
    assert torch.equal(ring.sample(50).keys, again.sample(50).keys)


def test_priorities_that_are_all_0_are_as_good_as_equal_ones(make_ring):
    ring, history = make_ring(1, sampler=Prioritized(0.6)), History(6)
    for _ in range(STEPS + 4):
        add(ring, history)
    keys = torch.arange(ring.first * N, ring.end * N)
    ring.update(keys, torch.zeros(len(keys)))
    batch = ring.sample(600)
    wanted = history.windows(1, is_twice=False)
    assert {divmod(key, N) for key in batch.keys.tolist()} == set(wanted)
    assert batch.probabilities.tolist() == [1 / ring.windows] * 600
    assert batch.weights(0.4).tolist() == [1.0] * 600
    (seen, other), priorities = batch.keys.unique()[:2].tolist(), torch.tensor([3.0, 1.0])
    ring.update(torch.tensor([seen, other]), priorities)
    batch = ring.sample(600)
    assert set(batch.keys.tolist()) == {seen, other}
    assert batch.probabilities.unique().tolist() == pytest.approx([1 / (1 + 3**0.6), 3**0.6 / (1 + 3**0.6)])


@pytest.mark.parametrize("as_on_gpu", [False, True])
def test_priorities_of_windows_that_were_written_over_are_ignored(as_on_gpu, request):
    ring = (request.getfixturevalue("make_ring") if as_on_gpu else made)(1, sampler=Prioritized(1.0))
    history = History(6)
    for _ in range(STEPS + 4):
        add(ring, history)
    gone = torch.arange(ring.first * N)
    for keys in (gone, torch.cat((gone, torch.tensor([ring.end * N - 1])))):
        ring.update(keys, torch.where(keys < ring.first * N, 9.0, 1.0))
        assert ring.sample(600).probabilities.unique().numel() == 1
        for _ in range(2):  # new windows have no higher priority
            add(ring, history)
        assert ring.sample(600).probabilities.unique().numel() == 1


@pytest.mark.parametrize("kind", [torch.float32, torch.float64])
def test_wrong_priorities_become_the_nearest_right_ones_where_nothing_may_wait(make_ring, kind):
    ring, history = make_ring(1, sampler=Prioritized(20.0)), History(6, 0, 0)
    for _ in range(4):
        add(ring, history)
    ring.update(torch.arange(4), torch.tensor([torch.inf, 1e30, -1.0, 0.0], dtype=kind))
    batch = ring.sample(50)
    assert batch.probabilities.tolist() == pytest.approx([0.5] * 50) and batch.keys.unique().tolist() == [0, 1]
    add(ring, history)
    assert set(ring.sample(300).keys.tolist()) == {0, 1, 9, 10, 11}


def test_priorities_whose_power_is_no_number_are_told():
    ring, history = made(1, sampler=Prioritized(2.0)), History(6, 0, 0)
    for _ in range(4):
        add(ring, history)
    for wrong, words in ((1e200, r"must be 1e\+145 at most, not 1e\+200"), (-1.0, "0 or more, not -1.0")):
        with pytest.raises(UsageError, match=words):
            ring.update(torch.arange(2), torch.tensor([1.0, wrong], dtype=torch.float64))
    assert float(ring.mass()) == 3 * N


@pytest.mark.parametrize("as_on_gpu", [False, True])
@pytest.mark.parametrize("sampler", [None, Prioritized(1.0)])
def test_no_keys_change_no_priorities(sampler, as_on_gpu, request):
    ring, history = (request.getfixturevalue("make_ring") if as_on_gpu else made)(1, sampler=sampler), History(6, 0, 0)
    for _ in range(4):
        add(ring, history)
    ring.update(torch.empty(0, dtype=torch.int64), torch.empty(0, dtype=torch.float64))
    assert ring.sample(300).probabilities.unique().numel() == 1
