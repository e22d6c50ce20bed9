"""What a trainer tells of its last update."""

import os

import pytest
import torch

from gmi_drl.algo.agent import make_agent
from gmi_drl.comm.channels import ChannelSizes, create_memory, join_as_agent, join_as_trainer, packed_bytes
from gmi_drl.comm.memory.mailbox_memory import create_mailboxes
from gmi_drl.comm.reductions.single import NoReduction
from gmi_drl.config.learners import A3CConfig
from gmi_drl.config.run_config import RunConfig, a3c_of
from gmi_drl.layout.channels import Channels
from gmi_drl.layout.experience import RolloutForm
from gmi_drl.roles.decoupled.a3c_learner import A3CLearner, make_a3c
from gmi_drl.roles.decoupled.channel_replica import ChannelReplica
from gmi_drl.roles.decoupled.update_stats import UpdateExchange
from gmi_drl.roles.probes.trainer_probe import random_experience
from gmi_drl.roles.training.iteration_stats import Decision
from gmi_drl.workload import TASK_SPECS

ANT = TASK_SPECS["ant"]
CPU = torch.device("cpu")
CONFIG = RunConfig(iterations=2, learner=A3CConfig(hidden=(8,), horizon=2, minibatches=1))
FORM = RolloutForm(2, 3, ANT.observation, ANT.action)


@pytest.fixture
def run():
    """A replica, and the agent's end of its channels."""
    a3c = A3CLearner(make_a3c(ANT, CONFIG, NoReduction(), CPU))
    sizes = ChannelSizes(FORM, 1, (0,), (1,), Channels(max_lag=1), packed_bytes(a3c.published))
    mailboxes, memory = create_mailboxes(range(2)), create_memory()
    end = join_as_trainer(memory, mailboxes, 1, sizes, 5.0)
    agent = join_as_agent(memory, mailboxes, 0, sizes, 5.0)
    replica = ChannelReplica(a3c, end, UpdateExchange(NoReduction().group, (0,)), version=0, last=2, publishes=True)
    yield replica, agent
    agent.close()
    end.close()
    mailboxes.close()
    os.close(memory)


def send(agent):
    """A rollout that could be experience."""
    place = agent.lease()
    batch = random_experience(FORM, make_agent(ANT, a3c_of(CONFIG), CPU, seed=0))
    for name, view in place.views.items():
        view.copy_(getattr(batch, name)[0])
        place.wrote_whole(name)
    place.commit()


def test_rollouts_under_way_at_the_end_are_in_the_last_row(run):
    replica, agent = run
    send(agent)
    stats = replica.iterate(lambda: Decision.GO_ON)
    assert stats.metrics["dropped"] == {} and not agent.is_closed
    send(agent)
    agent.lease()
    stats = replica.iterate(lambda: Decision.GO_ON)
    assert stats.metrics["dropped"] == {"experience ended": 1} and agent.is_closed
    assert replica.version == 2


def test_rollouts_under_way_are_counted_after_stop(run):
    replica, agent = run
    for _ in range(2):
        send(agent)
    stats = replica.iterate(lambda: Decision.STOP)
    assert stats.decision is Decision.STOP and stats.metrics["dropped"] == {"experience ended": 1} and agent.is_closed


def test_a_learner_is_told_the_version_that_each_update_begins_with(run, monkeypatch):
    replica, agent = run
    told, take = [], replica.learner.take
    monkeypatch.setattr(replica.learner, "take", lambda batch, version: told.append(version) or take(batch, version))
    for _ in range(2):
        send(agent)
        replica.iterate(lambda: Decision.GO_ON)
    assert told == [0, 1]
