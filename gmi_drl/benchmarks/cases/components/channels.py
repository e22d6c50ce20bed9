"""The channels of experience alone, without simulation or learning: multi-channel, uni-channel and a queue."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import partial

from gmi_drl.benchmarks.case import Case, Sides
from gmi_drl.benchmarks.cases.common import requirements
from gmi_drl.benchmarks.cores import all_cores
from gmi_drl.gmi.inventory import allowed_cores

CORES = 2
TASKS = ("anymal", "franka_cabinet")
"""Tasks of the paper's Table 8."""

NUM_ENV, HORIZON = 512, 16
BATCHES, QUICK_BATCHES = 100, 10
QUEUED = 10
"""How many times fewer batches a queue gets, because it is slower."""

COPY = "a copy within one process"
MEMORY = "a copy out of cache"
STEPS, ROLLOUTS = "multiprocessing.Queue, a message per step", "multiprocessing.Queue, a message per rollout"

MEMORY_BYTES, QUICK_MEMORY_BYTES = 2**30, 2**24
"""Bytes of the source and of the target of the last side: several times what any cache holds."""


@contextmanager
def open_sides(task: str, quick: bool) -> Iterator[Sides]:
    """A process that sends and this one, on a core each."""
    import os

    from gmi_drl.benchmarks.cases.components.channel_ends import BY_STEP, WHOLE, Receiver, Sender
    from gmi_drl.layout.experience import RolloutForm
    from gmi_drl.workload import TASK_SPECS

    spec, batches = TASK_SPECS[task], QUICK_BATCHES if quick else BATCHES
    nbytes = QUICK_MEMORY_BYTES if quick else MEMORY_BYTES
    form = RolloutForm(HORIZON, NUM_ENV, spec.observation, spec.action)
    with all_cores():
        ours, theirs, *_ = allowed_cores()
        os.sched_setaffinity(0, [ours])
        with closing(Sender(form, theirs)) as sender, closing(Receiver(sender, nbytes)) as receiver:
            few = max(1, batches // QUEUED)
            sides: Sides = {
                "MCC": partial(receiver.channels, "MCC", batches),
                "UCC": partial(receiver.channels, "UCC", batches),
                STEPS: partial(receiver.through_queue, BY_STEP, few),
                ROLLOUTS: partial(receiver.through_queue, WHOLE, few),
                COPY: partial(receiver.copy, batches),
                MEMORY: partial(receiver.copy_out_of_cache, batches),
            }
            for side in sides.values():
                side()
            yield sides


def obstacle() -> str | None:
    """Why this machine cannot run two processes on a core each that are joined by channels; None if it can."""
    from gmi_drl.comm.memory.fence import obstacle as no_fence

    return no_fence("channels") or requirements.cores(CORES)


def _case(task: str) -> Case:
    return Case(
        name=f"channels_{task}",
        claim=f"Experience of {task} (rollouts of {HORIZON} steps of {NUM_ENV} environments) from one process to "
        "another, on a core each, without simulation and learning: in multi-channel mode; in uni-channel mode, where "
        "every tensor of every step is a message of its own; through a multiprocessing.Queue of the same tensors, and "
        f"one of whole rollouts of each kind; {COPY}; and {MEMORY}, which is the speed of the memory itself.",
        unit="MB/s",
        open=partial(open_sides, task),
        obstacle=obstacle,
        reference="Table 8 of the paper: MCC trains 1.23x as fast as UCC (TTOP) and predicts 1.06x as fast (PPS)",
        limits="Every side but the last reads each received number once, by the same sum. Between cores both modes "
        "write the same bytes once, and the trainer reads them in place: they differ in their messages only. The "
        "bytes counted are those sent; a copy reads and writes each. Transfers to a GPU are not measured.",
        guard=0.15 if task == TASKS[0] else None,
        floor=1.5 if task == TASKS[0] else None,
    )


CASES = tuple(map(_case, TASKS))
