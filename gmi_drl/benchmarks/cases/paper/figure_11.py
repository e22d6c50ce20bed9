"""The paper's Figure 11: asynchronous training by GMIs and channels, against two processes with a queue."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from functools import partial

from gmi_drl.benchmarks.case import Case, Sample, Sides
from gmi_drl.benchmarks.cases.common.decoupled_run import QUICK_WARM_UP_S, WARM_UP_S, layout_of, obstacle, rates
from gmi_drl.benchmarks.cores import PURPOSE
from gmi_drl.errors import GmiError
from gmi_drl.gmi.inventory import this_node
from gmi_drl.layout.environment import KEEP_FREED_MEMORY

TASK = "anymal"
NUM_ENV, QUICK_NUM_ENV = 256, 64
SECONDS, QUICK_SECONDS = 12.0, 2.0
START_S = 120.0


@contextmanager
def open_sides(quick: bool) -> Iterator[Sides]:
    """Both sides, with the same environments, networks, learner, cores, allocator and number of buffered rollouts."""
    from gmi_drl.config.run_config import default_config
    from gmi_drl.workload import TASK_SPECS

    num_env, seconds = (QUICK_NUM_ENV, QUICK_SECONDS) if quick else (NUM_ENV, SECONDS)
    warm_up_s = QUICK_WARM_UP_S if quick else WARM_UP_S
    config = default_config(TASK_SPECS[TASK], "a3c")
    yield {
        "decoupled, MCC": partial(rates, layout_of(TASK, num_env), config, seconds, warm_up_s),
        "two processes and a queue": partial(through_queue, num_env, seconds, warm_up_s),
    }


def through_queue(num_env: int, seconds: float, warm_up_s: float) -> Sample:
    """The baseline, in processes of its own: predictions per second, all of which are learnt from."""
    from gmi_drl.benchmarks.cases.paper.figure_11_queue import Order
    from gmi_drl.gmi.claims import claim
    from gmi_drl.layout.channels import Channels

    agent_core, trainer_core = (physical[0] for physical in this_node().cpu.physical[:2])
    order = Order(TASK, num_env, seconds, warm_up_s, Channels().max_lag, agent_core, trainer_core)
    line = [sys.executable, "-m", "gmi_drl.benchmarks.cases.paper.figure_11_queue", json.dumps(asdict(order))]
    with claim([f"core-{agent_core}", f"core-{trainer_core}"], PURPOSE):
        limit_s, allocator = START_S + warm_up_s + seconds, {**os.environ, **KEEP_FREED_MEMORY}
        done = subprocess.run(line, capture_output=True, text=True, timeout=limit_s, env=allocator, check=False)
    if done.returncode:
        raise GmiError(f"the queue's processes failed: {done.stderr.strip().splitlines()[-1:]}")
    printed = json.loads(done.stdout.splitlines()[-1])
    return Sample(printed.pop("rate"), printed)


CASE = Case(
    name="decoupled_against_queue",
    claim=f"Training {TASK} by A3C with one agent and one trainer, a core each: GMIs joined by channels of experience, "
    "against two processes with a torch.multiprocessing.Queue of rollouts and parameters under a lock.",
    unit="steps/s",
    open=open_sides,
    obstacle=obstacle,
    reference="The paper, on 2 and 4 GPUs against agents and trainers without GMIs: 1.88x the predictions and 1.65x "
    "the samples learnt from per second",
    limits="With a core each for agent and trainer nothing is left to share, so this compares only how experience is "
    "passed on, and a ratio near 1 is expected. It cannot show how GMIs use idle parts of a GPU.",
    repeats=5,
)
