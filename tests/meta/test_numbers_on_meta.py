"""The counts of operations in docs/internals/gpu.md, counted again: more of anything fails, and so does less."""

import re
from pathlib import Path

import pytest
import torch
from meta_tasks import Pixels, go_on, meta_replica, meta_task, no_action
from operation_counts import Counts, meta_device

from gmi_drl.config.run_config import default_config
from gmi_drl.workload import TASK_SPECS

PAGE = (Path(__file__).parents[2] / "docs" / "internals" / "gpu.md").read_text()
COUNTED_WITH = re.search(r"counted with torch (\d+\.\d+)", PAGE)[1]
WORLDS = 4096
WAITS = 1  # of an iteration: the agreement
NATURE, SCREENS = "images, Nature", 256
NETWORKS: dict[str, dict[str, object]] = {NATURE: {}, "ant, GRU": {"memory": "gru"}}
"""Policies with other networks than those of tasks, by what is set of them."""


def count(name: str) -> tuple[Counts, Counts, Counts]:
    """Operations in a step of the task, in a control step, and in an iteration of the task's own settings.

    The latter is put together: what a step and a mini-batch add is the same for each. With a memory a step also adds to
    the loop of each mini-batch, and the first epoch costs more than others.
    """
    network = NETWORKS.get(name, {})
    with meta_device() as watch:
        task = Pixels(SCREENS) if name == NATURE else meta_task(watch, name.partition(",")[0], WORLDS)
        action = no_action(task)
        with watch.count() as of_task:
            task.step(action)
        learner = default_config(task.spec).learner
        minibatches, epochs = (
            (learner.minibatches, learner.epochs) if network else (1, learner.epochs * learner.minibatches)
        )
        short, longer, repeated, both = (
            count_iteration(watch, task, horizon=steps, epochs=repeats, minibatches=minibatches, **network)
            if network or (steps, repeats) != (3, 2)
            else None
            for steps, repeats in ((2, 1), (3, 1), (2, 2), (3, 2))
        )
    in_loop = both - repeated - longer + short if both else Counts()
    step, epoch, steps = longer - short - in_loop, repeated - short, learner.horizon - 2
    return of_task, step, short + step * steps + epoch * (epochs - 1) + in_loop * (steps * epochs)


def count_iteration(watch, task, **sizes):
    replica = meta_replica(watch, task, **sizes)
    with watch.allow(WAITS), watch.count() as counts:
        replica.iterate(go_on)
    return counts


def row(name: str) -> str:
    """The row of a task, or of a network, on the page."""
    of_task, step, iteration = count(name)
    of_agent = step - of_task
    assert (step.waits, step.to_device, iteration.waits) == (0, 0, WAITS)
    cells = [
        name,
        f"{of_task.launches} + {of_agent.launches}",
        f"{of_task.graphs} + {of_agent.graphs} ({step.in_graphs})",
        f"{step.allocations}, {step.allocated_bytes / 1e6:.1f} MB",
        f"{step.to_host}, {step.to_host_bytes} B",
        f"{iteration.launches}",
        f"{iteration.graphs} ({iteration.in_graphs})",
        f"{iteration.allocated_bytes / 1e6:.0f} MB",
        f"{iteration.to_device}, {iteration.to_device_bytes} B",
        f"{iteration.to_host}, {iteration.to_host_bytes} B",
    ]
    return f"| {' | '.join(cells)} |"


@pytest.mark.skipif(
    torch.__version__.split(".")[:2] != COUNTED_WITH.split("."),
    reason=f"numbers were counted with torch {COUNTED_WITH}",
)
@pytest.mark.parametrize("name", [*TASK_SPECS, *NETWORKS])
def test_the_page_has_the_counts(name):
    (said,) = re.findall(rf"^\| {name} \|.*B \|$", PAGE, re.MULTILINE)
    assert row(name) == said, "put the first into docs/internals/gpu.md if that is how it should be"
