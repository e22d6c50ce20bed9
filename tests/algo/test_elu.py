from types import SimpleNamespace

import pytest
import torch

from gmi_drl.algo import elu as module
from gmi_drl.algo.elu import LARGE, Elu, elu_, elu_with_slope_


@pytest.mark.parametrize("size", [100, LARGE + 100])
def test_values_and_gradients_are_torchs(size):
    x = torch.cat((torch.randn(size - 6) * 3, torch.tensor([0.0, -0.0, 1e-9, -1e-9, 300.0, -300.0])))
    given, reference = (x.clone().requires_grad_() for _ in range(2))
    ours, expected = Elu()(given * 1), torch.nn.functional.elu(reference)
    torch.testing.assert_close(ours, expected, atol=2e-7, rtol=1e-6)
    weights = torch.randn(size)
    (ours * weights).sum().backward()
    (expected * weights).sum().backward()
    torch.testing.assert_close(given.grad, reference.grad, atol=1e-6, rtol=1e-6)


def test_in_bfloat16_it_is_that_of_float32_to_the_rounding_of_numbers_near_one():
    x = (torch.randn(LARGE) * 3).bfloat16()
    exact = torch.nn.functional.elu(x.float())
    result, slope = x.clone(), torch.empty_like(x)
    elu_with_slope_(result, slope, torch.empty_like(x))
    assert result.dtype == torch.bfloat16 and torch.equal(result, elu_(x.clone()))
    assert torch.equal(result[x > 0], x[x > 0]) and (slope[x > 0] == 1).all()
    assert 0 < (result.float() - exact).abs().max() <= 2**-8, "the exponential has 8 bits"


def test_what_is_not_finite_stays_so():
    x = torch.zeros(LARGE)
    x[:3] = torch.tensor([float("nan"), float("inf"), -float("inf")])
    result = Elu()(x)
    assert result[0].isnan() and result[1] == float("inf") and result[2] == -1


@pytest.mark.parametrize("size", [100, LARGE])
def test_what_it_is_given_is_overwritten_and_autograd_knows(size):
    x = torch.randn(size)
    assert Elu()(x).data_ptr() == x.data_ptr()
    ours, theirs = (x.clone().requires_grad_() for _ in range(2))
    for given, elu in ((ours, Elu()), (theirs, torch.nn.ELU(inplace=True))):
        y = given * 1
        needs_y = y.sin()
        elu(y)
        y.sum().backward(retain_graph=True)  # y is the result now, and its gradient that of the result
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            needs_y.sum().backward()
    torch.testing.assert_close(ours.grad, theirs.grad, atol=1e-6, rtol=1e-6)


@pytest.mark.parametrize("size", [LARGE - 1, LARGE])
@pytest.mark.parametrize("wants_gradient", [False, True])
@pytest.mark.parametrize("records", [False, True])
def test_our_backward_pass_is_only_for_large_gradients(size, wants_gradient, records, monkeypatch):
    ours, given = [], torch.zeros(size, requires_grad=wants_gradient) * 1
    monkeypatch.setattr(module, "_LargeElu", SimpleNamespace(apply=lambda x: ours.append(x)))
    with torch.set_grad_enabled(records):
        Elu()(given)
    assert bool(ours) == (wants_gradient and records and size == LARGE)
