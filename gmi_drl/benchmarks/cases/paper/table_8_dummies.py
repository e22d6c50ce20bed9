"""The paper's Table 8 at the paper's rates, by dummies: the gain of multi-channel mode with steps that fast."""

from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Literal

from gmi_drl.benchmarks.case import Case, Sample, Sides
from gmi_drl.benchmarks.cases.components.channels import obstacle
from gmi_drl.benchmarks.cores import all_cores
from gmi_drl.gmi.inventory import allowed_cores

if TYPE_CHECKING:
    from gmi_drl.benchmarks.cases.paper.table_8_agents import Rates

Metric = Literal["pps", "ttop", "most"]

PPS = {"anymal": 180_001, "franka_cabinet": 102_363}
TTOP = {"anymal": 122_676, "franka_cabinet": 50_931}
"""Table 8, 2 GPUs, MCC: predictions per second of the agents of one GPU, and samples that trainers of one learn from.

Its UCC has 169,451 and 108,536 for anymal, 98,819 and 40,778 for franka_cabinet. The paper does not give the numbers of
GMIs, environments and steps.
"""

AGENTS, NUM_ENV, HORIZON = 4, 128, 16
"""The paper's GMIs have 128 to 16,384 environments (section 5.2): with the fewest, messages cost most."""

MODES = ("MCC", "UCC")
SECONDS, WARM_UP_S = 4.0, 1.0
QUICK_PART = 0.1


def rates_of(task: str, metric: Metric) -> "Rates":
    """The rates of a metric.

    For PPS the trainer only receives, for TTOP it learns at the paper's rate. For "most" agents only send and the
    trainer only receives, which shows the most that channels carry.
    """
    from gmi_drl.benchmarks.cases.paper.table_8_agents import Rates
    from gmi_drl.layout.experience import RolloutForm
    from gmi_drl.workload import TASK_SPECS

    spec = TASK_SPECS[task]
    form = RolloutForm(HORIZON, NUM_ENV, spec.observation, spec.action)
    samples = TTOP[task] if metric == "ttop" else None
    predictions = None if metric == "most" else PPS[task]
    return Rates(AGENTS, form, predictions, samples, spec.num_weights() + spec.action.size)


@contextmanager
def open_sides(task: str, metric: Metric, quick: bool) -> Iterator[Sides]:
    """Both modes, with the same dummies, memory, slots and copies: agents on one core, the trainer in this process."""
    import os

    from gmi_drl.benchmarks.cases.paper.table_8_agents import Dummies

    rates, part = rates_of(task, metric), QUICK_PART if quick else 1.0
    with all_cores():
        ours, theirs, *_ = allowed_cores()
        os.sched_setaffinity(0, [ours])

        def side(mode: str) -> Sample:
            with closing(Dummies(rates, mode, theirs)) as dummies:
                return dummies.measure(part * WARM_UP_S, part * SECONDS)

        yield {mode: partial(side, mode) for mode in MODES}


def _case(task: str, metric: Metric, gain: str) -> Case:
    counted = {"pps": "predictions", "ttop": "samples learnt from", "most": "steps"}[metric]
    who = {
        "pps": f"agents act at the paper's {PPS[task]:,} predictions/s and the trainer only receives",
        "ttop": f"agents act at the paper's {PPS[task]:,}/s, the trainer learns at {TTOP[task]:,}/s",
        "most": "agents only send and the trainer only receives, so this is the most that channels carry",
    }[metric]
    return Case(
        name=f"table_8_{metric}_{task}",
        claim=f"Table 8 by dummies, {task}: {AGENTS} agents of {NUM_ENV} environments on a core and a trainer on "
        f"another; {who}. {counted.capitalize()} per second with a channel for each kind of experience (MCC), against "
        "every tensor by itself on one queue (UCC). Same memory, slots and copies; nothing is pickled.",
        unit="steps/s",
        open=partial(open_sides, task, metric),
        obstacle=obstacle,
        reference=f"The paper, on 2 GPUs: {gain}; on average of Table 8 1.06x the predictions and 1.23x the samples",
        limits="Dummies sleep for as long as a GPU would work, so only the channels' use of the CPU slows them down. "
        "The rates are those of the paper's MCC, so they include its overhead already. The trainer is a dummy, too. On "
        "cores a message is a record of 48 bytes and no transfer, and with the fewest environments of the paper's "
        "range there are most messages. Buffers are bounded and nothing is dropped, so predictions and samples learnt "
        "from are one number in each case.",
        repeats=15,
    )


CASES = (
    _case("anymal", "pps", "1.06x the predictions per second"),
    _case("anymal", "ttop", "1.13x the samples learnt from per second"),
    _case("anymal", "most", "1.13x the samples learnt from per second"),
    _case("franka_cabinet", "pps", "1.04x the predictions per second"),
    _case("franka_cabinet", "ttop", "1.25x the samples learnt from per second"),
    _case("franka_cabinet", "most", "1.25x the samples learnt from per second"),
)
