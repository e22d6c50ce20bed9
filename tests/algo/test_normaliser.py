import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gmi_drl.algo.normaliser import Normaliser, merge_moments, moments
from gmi_drl.workload.spaces import vector


def test_statistics_of_parts_equal_those_of_the_whole():
    obs = torch.randn(6, 50, 3) * torch.tensor([1.0, 10.0, 0.1]) + torch.tensor([0.0, 100.0, -5.0])
    pooled, parted = Normaliser(vector(3), torch.device("cpu")), Normaliser(vector(3), torch.device("cpu"))
    pooled.merge(pooled.delta(obs)[None])
    parted.merge(torch.stack([parted.delta(obs[:, :20]), parted.delta(obs[:, 20:])]))
    torch.testing.assert_close(parted.statistics, pooled.statistics)
    flat = pooled(obs).flatten(0, 1)
    torch.testing.assert_close(flat.mean(0), torch.zeros(3), atol=1e-4, rtol=0)
    torch.testing.assert_close(flat.std(0)[:2], torch.ones(2), atol=2e-2, rtol=0)


def test_it_stands_still_until_merged_and_a_constant_does_not_explode():
    normaliser = Normaliser(vector(2), torch.device("cpu"))
    obs = torch.full((4, 2), 7.0)
    delta = normaliser.delta(obs)
    assert torch.equal(normaliser(obs), obs)
    normaliser.merge(delta[None])
    assert normaliser(obs).abs().max() == 0 and normaliser(obs + 1).abs().max() <= 100


def test_the_scaling_stays_in_the_same_tensors():
    normaliser, obs = Normaliser(vector(3), torch.device("cpu")), torch.randn(50, 3) * 4 + 7
    mean, scale = normaliser.mean, normaliser.scale  # a graph reads these for good
    assert mean.tolist() == [0, 0, 0] and scale.tolist() == [1, 1, 1]
    normaliser.merge(normaliser.delta(obs)[None])
    assert normaliser.mean is mean and normaliser.scale is scale
    torch.testing.assert_close(mean, obs.mean(0))
    torch.testing.assert_close(scale, 1 / (obs.std(0, correction=0) + Normaliser.EPSILON))


def test_loading_continues_bit_identically():
    first, second = Normaliser(vector(4), torch.device("cpu")), Normaliser(vector(4), torch.device("cpu"))
    first.merge(first.delta(torch.randn(9, 4))[None])
    second.load(first.statistics)
    obs = torch.randn(5, 4)
    for normaliser in (first, second):
        normaliser.merge(normaliser.delta(obs)[None])
    assert torch.equal(first.statistics, second.statistics) and torch.equal(first(obs), second(obs))


@settings(max_examples=50, deadline=None)
@given(st.lists(st.floats(-1e3, 1e3), min_size=2, max_size=30), st.data())
def test_merging_is_independent_of_the_cut(values, data):
    rows = torch.tensor(values, dtype=torch.float64)[:, None]
    cut = data.draw(st.integers(1, len(values) - 1))
    torch.testing.assert_close(
        merge_moments(moments(rows[:cut]), moments(rows[cut:])), moments(rows), atol=1e-6, rtol=1e-9
    )
