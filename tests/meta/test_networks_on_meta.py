"""Policies with memories, and of images: nothing within a horizon or an update waits for the device."""

import pytest
import torch
from meta_tasks import Pixels, meta_replica, meta_task
from operation_counts import META, Counts, meta_device

from gmi_drl.algo.agent import make_agent
from gmi_drl.algo.ppo import PPO
from gmi_drl.algo.rollout import Rollout
from gmi_drl.config.learners import PPOConfig
from gmi_drl.layout.experience import RolloutForm
from gmi_drl.roles.serving.service import Service
from gmi_drl.workload import TASK_SPECS

SHORT = {"horizon": 4, "epochs": 1, "minibatches": 2}
KINDS = {
    "gru": {"memory": "gru", "sequence": 2},
    "lstm": {"memory": "lstm"},
    "nature": {"memory": "none"},
    "nature with a gru": {"memory": "gru"},
}


@pytest.fixture
def watch():
    with meta_device() as watch:
        yield watch


@pytest.fixture(params=KINDS)
def replica(watch, request):
    task = Pixels(8) if "nature" in request.param else meta_task(watch, "ant")
    return meta_replica(watch, task, **SHORT, **KINDS[request.param])


def test_within_the_horizon_nothing_waits(replica):
    replica.actor.collect(replica.slot, replica.clock)


def test_what_serves_does_not_wait(replica):
    Service(replica.actor.task, replica.learner.agent, torch.Generator(META)).play(2)


def test_an_update_does_not_wait_and_its_loops_are_graphs(watch, replica):
    rollout = replica.slot.rollout
    order = torch.arange(rollout.units, device=META)
    with watch.count() as counts:
        replica.learner.updater.update(rollout, order)
    assert counts.graphs == 2 * 2 and counts.waits == counts.to_device == counts.to_host == 0
    if rollout.state is None:
        assert counts == Counts(counts.launches, counts.graphs, counts.in_graphs), "no memory is taken"


def test_an_update_in_bfloat16_does_not_wait(watch):
    """Acting cannot be tried so: torch has no autocast there."""
    spec = TASK_SPECS["ant"]
    config = PPOConfig.for_task(spec).model_copy(update={**SHORT, "bf16": True})
    with watch.allow(float("inf")):
        ppo = PPO(make_agent(spec, config, META, seed=0).policy, config)
        rollout = Rollout(RolloutForm(config.horizon, 8, spec.observation, spec.action), META)
        order = torch.arange(rollout.units, device=META)
        ppo.update(rollout, order)
    with watch.count() as counts:
        ppo.update(rollout, order)
    assert counts == Counts(counts.launches, counts.graphs, counts.in_graphs) and counts.graphs == 2 * 2
