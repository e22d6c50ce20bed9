import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from gmi_drl.algo.vtrace import Steps, n_step_returns, vtrace

GAMMA = 0.97


def steps_of(rows, horizon, worlds, seed, *, ends=0.2, wrong=0.1):
    """Made-up transitions `[rows, horizon, worlds]`; a third of the ends are time-outs, followed by a value."""
    generator = torch.Generator().manual_seed(seed)
    shape = rows, horizon, worlds
    reward, value, follows = torch.randn(3, *shape, generator=generator)
    done = (torch.rand(shape, generator=generator) < ends).float()
    timed_out = done * (torch.rand(shape, generator=generator) < 1 / 3)
    valid = (torch.rand(shape, generator=generator) >= wrong).float()
    last_value = torch.randn(rows, 1, worlds, generator=generator)
    next_value = torch.cat((value[:, 1:], last_value), 1)
    return Steps(reward + GAMMA * follows * timed_out, GAMMA * (1 - done), valid, value, next_value)


def published(steps, ratio, rho_clip, c_clip):
    """Remark 1 and section 4.2 of the paper, number by number in float64; targets and advantages."""
    reward, discount, valid, value, next_value, ratio = (
        tensor.double().tolist() for tensor in (*vars(steps).values(), ratio)
    )
    rows, horizon, worlds = len(reward), len(reward[0]), len(reward[0][0])
    target, advantage = torch.zeros(2, rows, horizon, worlds, dtype=torch.float64)
    for i in range(rows):
        for n in range(worlds):
            follows = next_value[i][-1][n]
            for t in reversed(range(horizon)):
                now, after = value[i][t][n], next_value[i][t][n]
                if not valid[i][t][n]:
                    target[i, t, n], follows = now, now
                    continue
                rho, c = min(rho_clip, ratio[i][t][n]), min(c_clip, ratio[i][t][n])
                error = rho * (reward[i][t][n] + discount[i][t][n] * after - now)
                advantage[i, t, n] = rho * (reward[i][t][n] + discount[i][t][n] * follows - now)
                follows = now + error + discount[i][t][n] * c * (follows - after)
                target[i, t, n] = follows
    return target, advantage


shapes = st.tuples(st.integers(1, 3), st.integers(1, 9), st.integers(1, 20))
seeds = st.integers(0, 2**31)


@given(shapes, seeds, st.sampled_from([(1.0, 1.0), (2.0, 1.0), (0.8, 0.5), (1.0, 0.95)]))
def test_vtrace_is_the_published_recursion(shape, seed, clips):
    steps = steps_of(*shape, seed)
    ratio = torch.randn(shape, generator=torch.Generator().manual_seed(seed)).exp()
    judged, (target, advantage) = vtrace(steps, ratio, *clips), published(steps, ratio, *clips)
    torch.testing.assert_close(judged.target.double(), target, atol=1e-5, rtol=1e-5)
    weighed = judged.advantage.double() * ratio.clamp(max=clips[0])
    torch.testing.assert_close(weighed, advantage, atol=1e-5, rtol=1e-5)


@given(shapes, seeds, st.floats(1, 10))
def test_with_ratios_of_1_vtrace_is_n_step_returns_bit_for_bit(shape, seed, clip):
    steps = steps_of(*shape, seed)
    for corrected, plain in zip(vtrace(steps, torch.ones(shape), clip, clip), n_step_returns(steps), strict=True):
        assert torch.equal(corrected, plain)


@pytest.mark.parametrize("worlds", [1000, 4096 + 3])
def test_with_ratios_of_1_it_is_n_step_returns_in_many_environments(worlds):
    steps = steps_of(2, 16, worlds, seed=0)
    for corrected, plain in zip(vtrace(steps, torch.ones(2, 16, worlds)), n_step_returns(steps), strict=True):
        assert torch.equal(corrected, plain)


@pytest.mark.parametrize(
    ("second", "expected"),
    [
        ({}, [2.75, 3.5, 5.0]),
        ({"discount": 0.0}, [1.5, 1.0, 5.0]),
        ({"discount": 0.0, "reward": 1 + 0.5 * 10}, [4.0, 6.0, 5.0]),
        ({"valid": 0.0}, [3.5, 5.0, 5.0]),
    ],
    ids=["goes on", "ends", "is cut short, with a value of 10", "goes wrong"],
)
def test_returns_of_three_steps_by_what_the_second_does(second, expected):
    def column(*numbers):
        return torch.tensor(numbers).view(1, 3, 1)

    steps = Steps(
        column(1.0, 1.0, 1.0),
        column(0.5, 0.5, 0.5),
        column(1.0, 1.0, 1.0),
        column(4.0, 5.0, 6.0),
        column(5.0, 6.0, 8.0),
    )
    for name, number in second.items():
        getattr(steps, name)[0, 1] = number
    assert n_step_returns(steps).target.flatten().tolist() == expected


def test_unlikely_actions_have_less_weight():
    steps = steps_of(1, 5, 4, seed=1, wrong=0)
    never = vtrace(steps, torch.zeros(1, 5, 4))
    assert torch.equal(never.target, steps.value)
    always = vtrace(steps, torch.full((1, 5, 4), 100.0))
    assert torch.equal(always.target, n_step_returns(steps).target), "ratios are clipped at 1"


def test_invalid_transitions_change_nothing():
    steps = steps_of(1, 5, 4, seed=1, wrong=0)
    steps.valid[0, 2, 1] = 0
    for judged in (vtrace(steps, torch.full((1, 5, 4), 0.5)), n_step_returns(steps)):
        assert judged.advantage[0, 2, 1] == 0 and judged.target[0, 2, 1] == steps.value[0, 2, 1]
