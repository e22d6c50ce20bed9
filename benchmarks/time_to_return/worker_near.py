"""CPU of what trainers and actors of one host do for a sample and for a pull of parameters; no process is started.

Run by `worker_scaling.py measure`. Both ends of a near channel are in this process, which writes a rollout as large as
those of the actors measured there, step by step, receives it, and reads each new version of a policy as large once. So
the CPU seconds are those of both ends together, with their copies of the numbers, without waits.
"""

import os
import time

from resumable import Run

HIDDEN = (64, 64)
FEW, ACTIONS = 115, 19
"""Numbers that `FootballLike-v0` shows, and its actions (`benchmarks/cases/common/sleeping.py`)."""

TRAINER, ACTOR = 0, 1
WARM_UP = 20
"""Samples that do not count."""


def measure_near(seconds: float, horizon: int, num_env: int, hang_s: float) -> Run:
    """CPU us of a rollout `[T, N]` and of a pull of the newest version, and their bytes."""
    import torch

    from gmi_drl.benchmarks.cases.components.channel_ends import made_rollout, send
    from gmi_drl.comm.channels import ChannelSizes, create_memory, join_as_agent, join_as_trainer, packed_bytes
    from gmi_drl.comm.memory.mailbox_memory import create_mailboxes
    from gmi_drl.layout.channels import Channels
    from gmi_drl.layout.experience import RolloutForm
    from gmi_drl.workload.network_sizes import NetworkSettings, num_weights
    from gmi_drl.workload.spaces import categorical, vector

    torch.set_num_threads(1)
    form = RolloutForm(horizon, num_env, vector(FEW), categorical(ACTIONS))
    weights = [torch.zeros(num_weights(NetworkSettings(HIDDEN), form.observation, form.action))]
    sizes = ChannelSizes(form, 1, (ACTOR,), (TRAINER,), Channels(max_lag=1), packed_bytes(weights))
    memory, mailboxes = create_memory(), create_mailboxes([TRAINER, ACTOR])
    trainer = join_as_trainer(memory, mailboxes, TRAINER, sizes, hang_s)
    actor = join_as_agent(memory, mailboxes, ACTOR, sizes, hang_s)
    trainer.parameters.publish(0, weights)
    rollout, read = made_rollout(form), [torch.empty_like(weights[0])]
    sample_s = pull_s = 0.0
    samples, until = -WARM_UP, time.perf_counter() + seconds
    while samples < 1 or time.perf_counter() < until:
        began = time.process_time()
        send(rollout, horizon, actor)
        trainer.take()
        learnt = time.process_time()
        trainer.parameters.publish(trainer.parameters.published(), weights)
        published = time.process_time()
        trainer.give_back()
        given_back = time.process_time()
        actor.parameters.read_into(read)
        pulled = time.process_time()
        if samples >= 0:
            sample_s += learnt - began + given_back - published
            pull_s += pulled - given_back
        samples += 1
    for end in (actor, trainer):
        end.close()
    mailboxes.close()
    os.close(memory)
    cost = {"sample_us": 1e6 * sample_s / samples, "pull_us": 1e6 * pull_s / samples}
    return {"kind": "near", "count": 1, **cost, "rollout_bytes": form.nbytes, "version_bytes": packed_bytes(weights)}
