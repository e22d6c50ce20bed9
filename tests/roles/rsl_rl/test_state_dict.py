import torch
from safetensors.torch import load, save

from gmi_drl.roles.rsl_rl.state_dict import pack, unpack


def test_an_optimizers_state_comes_back_through_safetensors():
    layer = torch.nn.Linear(3, 2)
    optimizer = torch.optim.Adam(layer.parameters(), lr=0.1)
    layer(torch.ones(1, 3)).sum().backward()
    optimizer.step()
    state = {"network": layer.state_dict(), "optimizer": optimizer.state_dict(), "none": None, "texts": ["a", "b"]}
    again = unpack(load(save(pack(state))))
    assert again["none"] is None and again["texts"] == ["a", "b"]
    assert all(torch.equal(again["network"][name], tensor) for name, tensor in layer.state_dict().items())
    other = torch.optim.Adam(torch.nn.Linear(3, 2).parameters())
    other.load_state_dict(again["optimizer"])
    assert other.param_groups[0]["lr"] == 0.1
    before, after = (o.state_dict()["state"][0]["exp_avg"] for o in (optimizer, other))
    assert before.any() and torch.equal(before, after)


def test_parts_that_two_networks_share_are_packed_too():
    shared = torch.ones(2)
    assert torch.equal(load(save(pack({"actor": shared, "critic": shared})))["state/critic"], shared)
