import pytest
import torch

from gmi_drl.algo.backprop import Backprop
from gmi_drl.algo.elu import LARGE
from gmi_drl.algo.flat_parameters import FlatParameters
from gmi_drl.algo.networks.mlp import mlp


def made(sizes, activation, rows):
    """A network, the bucket of its gradients, observations, and how a loss changes with the results."""
    torch.manual_seed(0)
    network = mlp(sizes, 1.0, activation)
    bucket = FlatParameters([*network.parameters()], tail=0, make_bucket=torch.zeros).bucket
    return network, bucket, torch.randn(rows, sizes[0]), torch.randn(rows, sizes[-1])


@pytest.mark.parametrize("activation", ["elu", "relu", "tanh"])
@pytest.mark.parametrize("sizes", [(5, 3), (5, 16, 3), (60, 256, 128, 64, 1)], ids=str)
def test_gradients_are_those_of_autograd(sizes, activation):
    network, bucket, x, weights = made(sizes, activation, 128)
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
    network, bucket, x, weights = made((6, 512, 2), "elu", 256)
    (network(x[:100]) * weights[:100]).sum().backward()
    by_autograd = bucket.clone()
    with torch.no_grad():
        way = Backprop(network)
        way.forward(x[:8])
        way.backward([output[:100] for output in way.forward(x)], weights[:100])
    torch.testing.assert_close(bucket, by_autograd, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("activation", ["elu", "relu", "tanh"])
@pytest.mark.parametrize("sizes", [(5, 3), (5, 16, 3), (60, 256, 128, 64, 1)], ids=str)
def test_in_bfloat16_numbers_are_those_of_autocast_and_autograd(sizes, activation):
    network, bucket, x, weights = made(sizes, activation, 128)
    with torch.autocast("cpu", torch.bfloat16):
        expected = network(x)
    (expected * weights).sum().backward()
    by_autograd = bucket.clone()
    exact = network(x)
    bucket.fill_(float("nan"))
    with torch.no_grad():
        way = Backprop(network, bf16=True)
        outputs = way.forward(x)
        way.backward(outputs, weights)
    assert [one.dtype for one in outputs] == [*(torch.bfloat16 for _ in sizes[2:]), torch.float32, torch.float32]
    hidden_layers = len(sizes) - 2
    assert torch.equal(outputs[-1], exact) == (hidden_layers == 0), "the last layer alone is in float32"
    assert (outputs[-1] - expected).norm() < 2e-3 * expected.norm()
    assert (bucket - by_autograd).norm() < 1e-2 * by_autograd.norm()


def test_in_bfloat16_first_rows_alone():
    network, bucket, x, weights = made((6, 512, 256, 2), "elu", 256)
    buckets = []
    with torch.no_grad():
        for rows in (256, 100):
            way = Backprop(network, bf16=True)
            way.backward([output[:100] for output in way.forward(x[:rows])], weights[:100])
            buckets.append(bucket.clone())
    assert (buckets[0] - buckets[1]).norm() < 1e-2 * buckets[1].norm()
