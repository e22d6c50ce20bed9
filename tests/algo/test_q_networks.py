"""Values of actions, and which action is taken by them."""

from dataclasses import replace

import pytest
import torch

from gmi_drl.algo.distributions.categorical import MASKED
from gmi_drl.algo.q_networks import QNetwork, epsilon_greedy
from gmi_drl.config.learners import DQNConfig
from gmi_drl.workload import TASK_SPECS
from gmi_drl.workload.spaces import Observation, Part, categorical, image, vector

CART = replace(TASK_SPECS["ant"], observation=vector(4), action=categorical(3))
MASK = replace(CART, observation=Observation((Part("joints", (4,)), Part("allowed", (3,), "mask"))))
N = 40_000


def noise(*shape):
    generator = torch.Generator().manual_seed(3)
    return -(torch.empty(*shape).exponential_(generator=generator).log())


@pytest.mark.parametrize("epsilon", [0.0, 0.1, 1.0])
def test_a_share_of_actions_is_uniform_and_the_others_are_the_best(epsilon):
    values = torch.tensor([0.0, 2.0, 1.0]).expand(N, 3)
    chosen = epsilon_greedy(values, noise(N, 3), torch.tensor(epsilon)).squeeze(-1)
    shares = torch.bincount(chosen.long(), minlength=3) / N
    wanted = torch.tensor([epsilon / 3, 1 - 2 * epsilon / 3, epsilon / 3])
    assert torch.allclose(shares, wanted, atol=0.01)


def test_without_noise_the_best_action_is_taken_at_any_share_that_serving_has():
    values = torch.randn(50, 3)
    chosen = epsilon_greedy(values, torch.zeros(50, 3), torch.tensor(0.5))
    assert torch.equal(chosen.squeeze(-1), values.argmax(-1).float())


def test_what_is_not_allowed_is_never_taken():
    values = torch.tensor([0.0, MASKED, 1.0]).expand(N, 3)
    chosen = epsilon_greedy(values, noise(N, 3), torch.tensor(1.0)).squeeze(-1)
    shares = torch.bincount(chosen.long(), minlength=3) / N
    assert shares[1] == 0 and abs(shares[0] - 0.5) < 0.01


def test_dueling_values_have_the_mean_of_the_state_value():
    network = QNetwork(CART, DQNConfig(hidden=(8,), stream=8))
    obs = torch.randn(5, 4)
    state = network.state_value(network.trunk(obs)).squeeze(-1)
    assert torch.allclose(network(obs).mean(-1), state, atol=1e-6)


def test_a_mask_of_the_observation_holds_for_values_and_actions():
    network = QNetwork(MASK, DQNConfig(hidden=(8,), stream=8))
    obs = torch.zeros(2, *MASK.observation.shape, dtype=torch.uint8)
    obs[:, MASK.observation.slices["allowed"]] = torch.tensor([0, 0, 1, 0], dtype=torch.uint8)[:3]
    assert (network(obs)[:, :2] == MASKED).all() and (network.mode(obs) == 2).all()


def test_masks_of_several_parts_hold_together():
    masks = (Part("a/action_mask", (1,), "mask"), Part("b/action_mask", (2,), "mask"))
    spec = replace(CART, observation=Observation((Part("joints", (4,)), *masks)))
    obs = torch.zeros(2, *spec.observation.shape, dtype=torch.uint8)
    obs[:, spec.observation.slices["b/action_mask"]] = torch.tensor([0, 1], dtype=torch.uint8)
    values = QNetwork(spec, DQNConfig(hidden=(8,), stream=8))(obs)
    assert (values[:, :2] == MASKED).all() and (values[:, 2] > MASKED).all()


def test_images_are_encoded():
    game = replace(CART, observation=image(2, 12, 12))
    network = QNetwork(game, DQNConfig(hidden=(), stream=8, features=16))
    obs = torch.randint(0, 255, (3, 2, 12, 12), dtype=torch.uint8)
    action, values = network.act(obs, torch.zeros(3, 3))
    assert action.shape == (3, 1) and values.shape == (3, 3)
