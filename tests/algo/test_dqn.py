"""DQN's update against the same by torch.optim and autograd."""

import copy
from dataclasses import replace

import pytest
import torch
from algo.batches import batch_of
from torch.nn.functional import huber_loss

from gmi_drl.algo.dqn import DQN, make_dqn_agent
from gmi_drl.config.learners import DQNConfig
from gmi_drl.workload import TASK_SPECS
from gmi_drl.workload.observations import pack
from gmi_drl.workload.spaces import Observation, Part, categorical, vector

CART = replace(TASK_SPECS["ant"], observation=vector(4), action=categorical(3))
CPU, N = torch.device("cpu"), 16


def made(**settings):
    config = DQNConfig(hidden=(8,), stream=8, **settings)
    agent = make_dqn_agent(CART, config, CPU, seed=0)
    return agent, DQN(agent, config, batch=N)


@pytest.mark.parametrize("double", [True, False])
@pytest.mark.parametrize("dueling", [True, False])
def test_updates_are_those_of_the_textbook(double, dueling):
    settings = {
        "double": double,
        "dueling": dueling,
        "target_every": 2,
        "reward_scale": 0.5,
        "max_grad_norm": 0.1,
        "learning_rate": 0.01,
    }
    agent, dqn = made(**settings)
    network = copy.deepcopy(agent.policy)
    target, adam = copy.deepcopy(network), torch.optim.Adam(network.parameters(), 0.01)
    weights = torch.linspace(0.1, 1, N)
    for number in range(1, 6):
        batch = batch_of(CART.observation, CART.action, N, seed=number)
        at = batch.fields
        with torch.no_grad():
            best = (network if double else target)(at["next/obs"]).argmax(-1, keepdim=True)
            wanted = 0.5 * at["reward"] + at["discount"] * target(at["next/obs"]).gather(-1, best).squeeze(-1)
        value = network(at["obs"]).gather(-1, at["action"].long()).squeeze(-1)
        loss = (weights * huber_loss(value, wanted, reduction="none")).mean()
        adam.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(network.parameters(), 0.1)
        adam.step()
        if number % 2 == 0:
            target.load_state_dict(network.state_dict())
        errors = dqn.update(batch, weights)
        assert torch.allclose(errors, (value - wanted).abs().detach(), atol=1e-5)
    for mine, theirs in zip(agent.policy.parameters(), network.parameters(), strict=True):
        assert torch.allclose(mine, theirs, atol=1e-5)
    dqn.begin()
    dqn.update(batch)
    assert dqn.metrics().keys() >= {"q_loss", "q_mean", "epsilon", "learning_rate", "updates"}


def test_the_share_of_random_actions_falls_evenly():
    agent, dqn = made(epsilon_start=0.8, epsilon_end=0.2, epsilon_steps=100)
    dqn.explore(10)
    assert agent.policy.exploration == 1, "before the first update all is random"
    dqn.steps, dqn.updates = 30, 1
    for later, share in ((0, 0.62), (20, 0.5), (500, 0.2)):
        dqn.explore(later)
        assert agent.policy.exploration.item() == pytest.approx(share)


@pytest.mark.parametrize("dueling", [True, False])
def test_gradients_that_are_not_finite_change_nothing(dueling):
    _, dqn = made(dueling=dueling)
    before, batch = dqn.flat.vector.clone(), batch_of(CART.observation, CART.action, N)
    batch.fields["reward"][3] = torch.nan
    dqn.begin()
    dqn.update(batch)
    assert torch.equal(dqn.flat.vector, before) and dqn.metrics()["skipped_updates"] == 1


def test_a_learner_goes_on_from_its_state():
    batch = batch_of(CART.observation, CART.action, N)
    first, second = made(target_every=2)[1], made(target_every=2)[1]
    for _ in range(3):
        first.update(batch)
    second.load_state_dict({name: tensor.clone() for name, tensor in first.state_dict().items()})
    second.steps, second.updates = first.counts().tolist()
    first.update(batch)
    second.update(batch)
    for name, tensor in first.state_dict().items():
        assert torch.equal(tensor, second.state_dict()[name]), name


def test_nothing_follows_where_the_last_mask_allows_nothing():
    seen = Observation((Part("v", (4,)), Part("action_mask", (3,), "mask")))
    spec, config = replace(CART, observation=seen), DQNConfig(hidden=(8,), stream=8)
    dqn = DQN(make_dqn_agent(spec, config, CPU, seed=0), config, batch=2)
    masks = torch.tensor([[0, 0, 0], [0, 1, 0]], dtype=torch.uint8)
    batch = batch_of(seen, spec.action, 2, seed=1)
    batch.fields["obs"], batch.fields["next/obs"] = (
        pack({"v": torch.ones(2, 4), "action_mask": mask}, seen) for mask in (torch.ones_like(masks), masks)
    )
    assert dqn.update(batch, torch.ones(2)).max() < 100
