import pytest
import torch

from gmi_drl.algo.backprop import Backprop
from gmi_drl.algo.flat_parameters import FlatParameters
from gmi_drl.algo.networks.mlp import mlp


def zeros(count):
    return torch.zeros(count)


@pytest.mark.parametrize("activation", ["elu", "relu", "tanh"])
@pytest.mark.parametrize("sizes", [(5, 3), (5, 16, 3), (60, 256, 128, 64, 1)], ids=str)
def test_gradients_are_those_of_autograd_bit_for_bit(sizes, activation):
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
    assert torch.equal(outputs[-1], expected) and torch.equal(bucket, by_autograd)
