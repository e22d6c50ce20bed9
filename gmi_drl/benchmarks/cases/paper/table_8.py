"""The paper's Table 8: a channel for each kind of experience, against one queue for every tensor."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial

from gmi_drl.benchmarks.case import Case, Sides
from gmi_drl.benchmarks.cases.common.decoupled_run import QUICK_WARM_UP_S, WARM_UP_S, layout_of, obstacle, rates

NUM_ENV, QUICK_NUM_ENV = 256, 64
SECONDS, QUICK_SECONDS = 12.0, 2.0


def opener(task: str) -> Callable[[bool], AbstractContextManager[Sides]]:
    """The opener of both sides, with the same agent, trainer, slots and copies."""

    @contextmanager
    def open_sides(quick: bool) -> Iterator[Sides]:
        from gmi_drl.config.run_config import default_config
        from gmi_drl.layout.channels import Channels
        from gmi_drl.workload import TASK_SPECS

        num_env, seconds = (QUICK_NUM_ENV, QUICK_SECONDS) if quick else (NUM_ENV, SECONDS)
        config, warm_up_s = default_config(TASK_SPECS[task], "a3c"), QUICK_WARM_UP_S if quick else WARM_UP_S
        layouts = {
            "MCC": layout_of(task, num_env, channels=Channels(mode="MCC")),
            "UCC": layout_of(task, num_env, channels=Channels(mode="UCC")),
        }
        yield {name: partial(rates, layout, config, seconds, warm_up_s) for name, layout in layouts.items()}

    return open_sides


def case(task: str, papers: str) -> Case:
    """The case of one task."""
    return Case(
        name=f"table_8_{task}",
        claim=f"Training {task} by A3C with one agent and one trainer, a core each: a channel for each kind of "
        "experience (MCC), against every tensor by itself on one queue (UCC). Same memory, copies and bounds.",
        unit="steps/s",
        open=opener(task),
        obstacle=obstacle,
        reference=f"The paper, on 2 GPUs: {papers}",
        limits="On cores agents and trainers share memory, so that a message is a record of 48 bytes. Real physics on "
        "a core gives thousands of steps a second, the paper's GPUs give a hundred thousand. Buffers are bounded and "
        "nothing is dropped, so predictions and samples learnt from are one number.",
        repeats=5,
    )


CASES = (
    case("anymal", "1.06x the predictions and 1.13x the samples learnt from per second"),
    case("franka_cabinet", "1.04x the predictions and 1.25x the samples learnt from per second"),
)
