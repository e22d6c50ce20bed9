from dataclasses import replace

import pytest
import torch

from gmi_drl.algo.networks import ActorCritic, make_policy
from gmi_drl.config.run_config import default_config
from gmi_drl.workload import TASK_SPECS
from gmi_drl.workload.network_sizes import NetworkSettings
from gmi_drl.workload.spaces import Action, categorical, continuous, image, vector

TABLE_6 = [
    ("ant", "AT", 60, (256, 128, 64), 8),
    ("anymal", "AY", 48, (256, 128, 64), 12),
    ("ball_balance", "BB", 24, (256, 128, 64), 3),
    ("franka_cabinet", "FC", 23, (256, 128, 64), 9),
    ("humanoid", "HM", 108, (200, 400, 100), 21),
    ("shadow_hand", "SH", 211, (512, 512, 512, 256), 20),
]
TABLE_7 = [("ant", 114_121), ("humanoid", 286_822), ("shadow_hand", 1_535_765)]  # as 1.1e5, 2.9e5 and 1.5e6


def test_the_tasks_are_those_of_the_paper():
    found = [(s.name, s.alias, s.observation.size, s.hidden, s.action.size) for s in TASK_SPECS.values()]
    assert found == TABLE_6


@pytest.mark.parametrize(("name", "weights"), TABLE_7)
def test_the_networks_have_the_papers_weights(name, weights):
    spec = TASK_SPECS[name]
    policy = make_policy(spec, default_config(spec).learner)
    made = sum(p.numel() for net in (policy.actor, policy.critic) for p in net.parameters())
    assert made == weights == spec.num_weights()


def test_sampling_and_log_prob_agree_with_torch_distributions():
    policy = ActorCritic(TASK_SPECS["ant"], init_std=0.7)
    obs = torch.randn(5, 60)
    noise = torch.randn(5, 8)
    action, mean = policy.act(obs, noise)
    reference = torch.distributions.Normal(mean, policy.log_std.exp())
    torch.testing.assert_close(action, mean + 0.7 * noise)
    torch.testing.assert_close(policy.log_prob(action, mean), reference.log_prob(action).sum(-1))
    torch.testing.assert_close(policy.entropy(), reference.entropy().sum(-1)[0])


@pytest.mark.parametrize(
    ("observation", "action", "share", "is_plain"),
    [
        (vector(6), continuous(2), None, True),
        (vector(6), categorical(4), None, True),
        (vector(6), Action(2, (4,)), None, False),
        (vector(6), continuous(2), True, False),
        (image(2, 12, 12), continuous(2), False, False),
    ],
)
def test_two_networks_of_linear_layers_without_a_mixed_action_are_plain(observation, action, share, is_plain):
    spec = replace(TASK_SPECS["ant"], observation=observation, action=action)
    assert ActorCritic(spec, NetworkSettings((8,), share=share, features=8)).is_plain is is_plain
