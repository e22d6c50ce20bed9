import torch
from torch import nn

from gmi_drl.algo.flat_parameters import FlatParameters, tensor_digest


def test_parameters_and_gradients_are_views_of_one_vector():
    net = nn.Sequential(nn.Linear(3, 4), nn.ELU(), nn.Linear(4, 2))
    before = [p.detach().clone() for p in net.parameters()]
    flat = FlatParameters(list(net.parameters()), tail=2, make_bucket=torch.zeros)
    assert flat.size == 3 * 4 + 4 + 4 * 2 + 2 and flat.bucket.numel() == flat.size + 2
    for old, parameter in zip(before, net.parameters(), strict=True):
        torch.testing.assert_close(parameter.detach(), old, atol=0, rtol=0)
    net(torch.randn(7, 3)).square().sum().backward()
    expected = torch.cat([p.grad.t().reshape(-1) for p in net.parameters()])  # weights lie as [in, out]
    assert expected.abs().sum() > 0
    torch.testing.assert_close(flat.gradient, expected, atol=0, rtol=0)
    torch.testing.assert_close(flat.vector[:12].view(3, 4), before[0].t(), atol=0, rtol=0)
    flat.vector.zero_()
    assert all(p.abs().sum() == 0 for p in net.parameters())


def test_gradients_accumulate_in_the_bucket():
    parameter = nn.Parameter(torch.ones(3))
    flat = FlatParameters([parameter], tail=0, make_bucket=torch.zeros)
    for _ in range(2):
        (parameter * 3).sum().backward()
    assert flat.bucket.tolist() == [6, 6, 6]


def test_digest_sees_one_bit():
    vector = torch.randn(10)
    other = vector.clone()
    assert tensor_digest(vector) == tensor_digest(other)
    other[3] = torch.nextafter(other[3], torch.tensor(9.0))
    assert tensor_digest(vector) != tensor_digest(other)
