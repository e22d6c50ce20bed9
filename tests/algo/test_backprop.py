import pytest
import torch

from gmi_drl.algo.backprop import Backprop
from gmi_drl.algo.elu import LARGE
from gmi_drl.algo.flat_parameters import FlatParameters
from gmi_drl.algo.networks.mlp import mlp


def zeros(count):
    return torch.zeros(count)


@pytest.mark.parametrize("activation", ["elu", "relu", "tanh"])
@pytest.mark.parametrize("sizes", [(5, 3), (5, 16, 3), (60, 256, 128, 64, 1)], ids=str)
def test_gradients_are_those_of_autograd(sizes, activation):
    torch.manual_seed(0)
    network = mlp(sizes, 1.0, activation)
    bucket = FlatParameters([*network.parameters()], tail=0, make_bucket=zeros).bucket
    x, weights = torch.randn(128, sizes[0]), torch.randn(128, sizes[-1])
    expected = network(x)
    (expected * weights).sum().backward()
    by_autograd = bucket.clone()
    assert by_autograd.abs().max() > 0
    bucket.fill_(float("nan"))  # whatever was there is gone
    with torch.no_grad():
        way = Backprop(network)
        outputs = way.forward(x)
        way.backward(outputs, weights)
    assert torch.equal(outputs[-1], expected)
    if activation == "elu" and 128 * max(sizes[1:-1], default=0) >= LARGE:  # its slope is computed otherwise
        torch.testing.assert_close(bucket, by_autograd, rtol=1e-5, atol=1e-5)
    else:
        assert torch.equal(bucket, by_autograd)


def test_batches_of_other_sizes_and_first_rows_alone():
    torch.manual_seed(0)
    network = mlp((6, 512, 2), 1.0, "elu")
    bucket = FlatParameters([*network.parameters()], tail=0, make_bucket=zeros).bucket
    x, weights = torch.randn(256, 6), torch.randn(256, 2)
    (network(x[:100]) * weights[:100]).sum().backward()
    by_autograd = bucket.clone()
    with torch.no_grad():
        way = Backprop(network)
        way.forward(x[:8])
        way.backward([output[:100] for output in way.forward(x)], weights[:100])
    torch.testing.assert_close(bucket, by_autograd, rtol=1e-5, atol=1e-5)
