from copy import deepcopy
from dataclasses import replace

import pytest
import torch

from gmi_drl.algo.networks import ActorCritic
from gmi_drl.algo.networks.memory import Past
from gmi_drl.workload import TASK_SPECS
from gmi_drl.workload.network_sizes import NetworkSettings
from gmi_drl.workload.spaces import categorical, image, vector

B = 32
KINDS = {
    "vector": (vector(6), NetworkSettings((16,), bf16=True)),
    "image": (image(2, 12, 12), NetworkSettings((16,), features=16, bf16=True)),
    "memory": (vector(6), NetworkSettings((16,), memory="lstm", memory_size=8, bf16=True)),
}


@pytest.mark.parametrize("kind", KINDS)
def test_numbers_and_gradients_are_near_those_of_float32_and_of_its_type(kind):
    observation, settings = KINDS[kind]
    spec = replace(TASK_SPECS["ant"], observation=observation, action=categorical(4))
    torch.manual_seed(0)
    policy = ActorCritic(spec, settings)
    exact = deepcopy(policy)
    exact.bf16 = False
    obs = torch.randn(B, 6) if observation.is_vector else torch.randint(0, 255, (B, 2, 12, 12), dtype=torch.uint8)
    past = Past(torch.randn(B, policy.state_size)) if policy.state_size else None
    gradients = []
    for one in (policy, exact):
        params, value = one.params_and_value(obs, past)
        assert params.dtype == value.dtype == torch.float32
        (params.square().sum() + value.square().sum()).backward()
        gradients.append(torch.cat([parameter.grad.flatten() for parameter in one.parameters() if parameter.numel()]))
    mine, reference = gradients
    assert 0 < (mine - reference).norm() / reference.norm() < 0.05
    assert policy.is_plain == (kind == "vector")
    assert all(parameter.dtype == torch.float32 for parameter in policy.parameters())


@pytest.mark.parametrize("kind", KINDS)
def test_the_last_layer_is_in_float32(kind):
    observation, settings = KINDS[kind]
    policy = ActorCritic(replace(TASK_SPECS["ant"], observation=observation, action=categorical(4)), settings)
    obs = torch.zeros(B, 6) if observation.is_vector else torch.zeros(B, 2, 12, 12, dtype=torch.uint8)
    past = Past(torch.zeros(B, policy.state_size)) if policy.state_size else None
    lasts = [[*network.modules()][-1] for network in (policy.actor, policy.critic)]
    with torch.no_grad():
        for last in lasts:
            last.bias.fill_(1 + 2**-12)  # bfloat16 has 8 bits
        params, value = policy.params_and_value(obs, past)
    assert (params == 1 + 2**-12).all() and (value == 1 + 2**-12).all()
