"""An iteration from a ring on the device: what its steps and updates send, and what they wait for."""

from math import inf

import pytest
from meta_tasks import go_on, meta_task
from operation_counts import META, meta_device

from gmi_drl.comm.reductions.single import NoReduction
from gmi_drl.config.learners import SACConfig
from gmi_drl.config.learners.off_policy import ReplaySettings
from gmi_drl.config.run_config import RunConfig
from gmi_drl.roles.replay.replica import ReplayReplica

WORLDS = 64


@pytest.mark.parametrize("sampler", ["uniform", "prioritized"])
def test_neither_a_step_nor_an_update_waits_or_uploads(sampler):
    """What is left of an iteration is the exchange: one transfer."""

    def counted(horizon, per_step):
        replay = ReplaySettings(size=64 * 100, min_size=1, sampler=sampler)
        learner = SACConfig(hidden=(8,), horizon=horizon, updates_per_step=per_step, batch=16, replay=replay)
        sizes = {"num_env": WORLDS, "group_num_env": WORLDS}
        with watch.allow(inf):
            reduction = NoReduction(device=META)
            replica = ReplayReplica(task.spec, RunConfig(learner=learner), reduction, device=META, seed=0, **sizes)
            replica.attach_task(task, seed=1)
            replica.iterate(go_on)
        with watch.allow(1), watch.count() as counts:
            replica.iterate(go_on)
        return counts

    with meta_device() as watch:
        task = meta_task(watch, "ant", WORLDS)
        short, longer, repeated = counted(4, 1), counted(8, 0.5), counted(4, 2)
    steps, updates = longer - short, repeated - short
    assert steps.waits == steps.to_device == 0  # a task sends its own counters to the host, without waiting
    assert updates.waits == updates.to_device == updates.to_host == 0
