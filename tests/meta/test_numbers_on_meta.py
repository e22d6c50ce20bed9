"""The counts of operations in docs/internals/gpu.md, counted again: more of anything fails, and so does less."""

import re
from pathlib import Path

import pytest
import torch
from meta_tasks import go_on, meta_replica, meta_task, no_action
from operation_counts import Counts, meta_device

from gmi_drl.config.run_config import default_config
from gmi_drl.workload import TASK_SPECS

PAGE = (Path(__file__).parents[2] / "docs" / "internals" / "gpu.md").read_text()
COUNTED_WITH = re.search(r"counted with torch (\d+\.\d+)", PAGE)[1]
WORLDS = 4096
WAITS = 1  # of an iteration: the agreement


def count(name: str, horizon: int, minibatches: int) -> tuple[Counts, Counts, Counts]:
    """Operations in a step of the task, in a control step, and in an iteration of so many of these and mini-batches.

    The latter is put together: what a step and a mini-batch add is the same for each.
    """
    with meta_device() as watch:
        task = meta_task(watch, name, WORLDS)
        with watch.count() as of_task:
            task.step(no_action(task))
        short, longer, repeated = (
            count_iteration(watch, task, horizon=steps, epochs=epochs, minibatches=1)
            for steps, epochs in ((1, 1), (2, 1), (1, 2))
        )
    step, minibatch = longer - short, repeated - short
    return of_task, step, short + step * (horizon - 1) + minibatch * (minibatches - 1)


def count_iteration(watch, task, **sizes):
    replica = meta_replica(watch, task, **sizes)
    with watch.allow(WAITS), watch.count() as counts:
        replica.iterate(go_on)
    return counts


def row(name: str) -> str:
    """The task's row on the page."""
    learner = default_config(TASK_SPECS[name]).learner
    of_task, step, iteration = count(name, learner.horizon, learner.epochs * learner.minibatches)
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
@pytest.mark.parametrize("name", TASK_SPECS)
def test_the_page_has_the_counts(name):
    (said,) = re.findall(rf"^\| {name} \|.*B \|$", PAGE, re.MULTILINE)
    assert row(name) == said, "put the first into docs/internals/gpu.md if that is how it should be"


def test_an_iteration_is_what_its_parts_add():
    with meta_device() as watch:
        whole = count_iteration(watch, meta_task(watch, "ant", WORLDS), horizon=4, epochs=2, minibatches=2)
    assert count("ant", horizon=4, minibatches=4)[2] == whole
