"""An iteration where nothing computes, part by part: what waits for the device, and how often."""

import pytest
import torch
from meta_tasks import go_on, meta_replica, meta_task
from operation_counts import META, Counts, meta_device

from gmi_drl.roles.serving.recorder import Recorder
from gmi_drl.roles.serving.service import Service
from gmi_drl.roles.training.iteration_stats import exchange_stats
from gmi_drl.workload import TASK_SPECS

SHORT = {"horizon": 2, "epochs": 1, "minibatches": 1}


@pytest.fixture
def watch():
    with meta_device() as watch:
        yield watch


@pytest.mark.parametrize("name", TASK_SPECS)
def test_within_the_horizon_and_in_judging_nothing_waits(watch, name):
    replica = meta_replica(watch, meta_task(watch, name, tells_terms=True), **SHORT)
    replica.actor.collect(replica.slot, replica.clock)


def test_nor_does_it_by_rsl_rls_bootstrap(watch):
    replica = meta_replica(watch, meta_task(watch, "ant"), bootstrap="last_value", **SHORT)
    replica.actor.collect(replica.slot, replica.clock)


def test_what_serves_does_not_wait_within_a_block(watch):
    replica = meta_replica(watch, meta_task(watch, "ant"), **SHORT)
    for noise in (None, torch.Generator(META)):
        Service(replica.actor.task, replica.learner.agent, noise).play(2)


def test_what_it_sees_is_written_down_by_a_copy_for_each_tensor_and_takes_no_memory(watch):
    replica = meta_replica(watch, meta_task(watch, "ant"), **SHORT)
    task, agent = replica.actor.task, replica.learner.agent
    recorder = Recorder(task, 2, sink=None)
    per_service = []
    for service in (Service(task, agent), Service(task, agent, recorder=recorder)):
        with watch.count() as of_service:
            service.play(2)
        per_service.append(of_service)
    assert per_service[1] - per_service[0] == Counts(launches=2 * 7) and recorder.room == 0


def test_agreement_is_one_transfer(watch):
    replica = meta_replica(watch, meta_task(watch, "ant"), **SHORT)
    rollout = replica.slot.rollout
    moments = rollout.advantage_moments()
    with watch.allow(1), watch.count() as counts:
        exchange_stats(replica.learner.group, go_on(), rollout.sums, moments, rollout.delta)
    told_numbers = len(rollout.sums) + len(moments) + len(rollout.delta)
    assert (counts.to_host, counts.to_host_bytes, counts.to_device) == (1, 8 * told_numbers, 0)


@pytest.mark.parametrize("schedule", ["adaptive", "fixed"])
def test_an_update_does_not_wait(watch, schedule):
    replica = meta_replica(watch, meta_task(watch, "ant"), schedule=schedule, **SHORT | {"epochs": 2, "minibatches": 3})
    order = torch.arange(replica.slot.rollout.transitions, device=META)
    with watch.count() as counts:
        replica.learner.updater.update(replica.slot.rollout, order)
    assert counts.graphs == 2 * 2 * 3
    assert counts == Counts(counts.launches, counts.graphs, counts.in_graphs), "no memory is taken, nothing is copied"


def test_the_normaliser_is_told_by_one_transfer_that_nobody_waits_for(watch):
    replica = meta_replica(watch, meta_task(watch, "ant"), **SHORT)
    with watch.count() as counts:
        replica.learner.agent.normaliser.merge(torch.ones(1, 1 + 2 * 60, dtype=torch.float64))
    assert counts == Counts(to_device=1, to_device_bytes=2 * 4 * 60)


def test_metrics_are_one_transfer(watch):
    replica = meta_replica(watch, meta_task(watch, "ant"), **SHORT)
    with watch.allow(1), watch.count() as counts:
        replica.metrics()
    assert (counts.to_host, counts.to_device) == (1, 0)
