"""The paper's Figure 7 on one GPU: the best number of GMIs, against one process that has the GPU alone."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any, Literal

from gmi_drl.benchmarks.case import CURVES, Case, Side, Sides
from gmi_drl.benchmarks.cases.common import requirements
from gmi_drl.benchmarks.cases.common.num_env_sweep import Sweep, sweep
from gmi_drl.benchmarks.cases.common.sessions import of_layouts, training_side
from gmi_drl.benchmarks.cases.common.shared_gpu import (
    LABELS,
    PLAIN,
    cut_by,
    measure_speeds,
    shared,
    sizes_of,
    ways,
    with_details,
)
from gmi_drl.errors import MachineError
from gmi_drl.workload import TASK_SPECS

if TYPE_CHECKING:
    from gmi_drl.config.run_config import RunConfig
    from gmi_drl.hardware.node import Node
    from gmi_drl.templates import Template

SIZES = (1, 2, 4, 8, 3, 5, 6, 7, 9, 10)
"""Numbers of GMIs in the order in which they are tried: the time may not suffice for the last ones."""
TOTALS, QUICK_TOTALS = (2048, 8192, 32768, 65536), (16, 32)
SEARCH_S, QUICK_SEARCH_S = 200.0, 0.0
SECONDS, QUICK_SECONDS = 1.5, 0.05

EXCLUSIVE = "one exclusive process"
Purpose = Literal["training", "serving"]
PAPER = {
    "training": "Figure 7(b) of the paper: 1.86x on average with +31.8 points of utilisation, over 1 to 8 A100s",
    "serving": "Figure 7(a) of the paper: 2.08x on average with +27.9 points of utilisation, over 1 to 8 A100s",
}


def opener(task: str, purpose: Purpose) -> Callable[[bool], AbstractContextManager[Sides]]:
    """The opener of the sides: finds each way's best number of GMIs, then measures these in turn with one process."""

    @contextmanager
    def open_sides(quick: bool) -> Iterator[Sides]:
        from gmi_drl.config.run_config import default_config
        from gmi_drl.gmi.inventory import this_node

        node, config, seconds = this_node(), default_config(TASK_SPECS[task]), QUICK_SECONDS if quick else SECONDS
        if purpose == "training":
            measure_speeds(node, [cut_by(way, 2).backend for way in ways()])
        sweeps = {way: sweep_of(task, purpose, node, config, way, quick) for way in ways()}
        alone = sweeps[PLAIN].fastest([1])
        if alone is None:
            raise MachineError(f"one process alone does not run: {sweeps[PLAIN].left_out}")
        chosen = {EXCLUSIVE: (PLAIN, 1)}
        for way, found in sweeps.items():
            if size := found.fastest(size for size in SIZES if size > 1):
                chosen[f"{LABELS[way]} at its best"] = (way, size)
        cuts = {name: shared(task, node, _template(purpose), size, way) for name, (way, size) in chosen.items()}
        with of_layouts(cuts, config) as sessions:

            def side(name: str) -> Side:
                way, size = chosen[name]
                num_env, found = sweeps[way].best[size].num_env, sweeps[way]
                details: dict[str, Any] = {CURVES: found.curves()} if name != EXCLUSIVE else {}
                details |= {"left_out": found.left_out} if found.left_out else {}
                return with_details(training_side(sessions, name, num_env, seconds), details)

            yield {name: side(name) for name in cuts}

    return open_sides


def sweep_of(task: str, purpose: Purpose, node: "Node", config: "RunConfig", way: str, quick: bool) -> Sweep:
    """Measure every number of GMIs by one way. Returns each with its best number of environments."""
    template, budget_s = _template(purpose), (QUICK_SEARCH_S if quick else SEARCH_S) / len(ways())
    return sweep(
        lambda size: shared(task, node, template, size, way),
        config,
        sizes_of(way, SIZES, node),
        QUICK_TOTALS if quick else TOTALS,
        QUICK_SECONDS if quick else SECONDS,
        budget_s,
    )


def _template(purpose: Purpose) -> "Template":
    from gmi_drl.templates import TCG, TCG_EX

    return TCG if purpose == "serving" else TCG_EX


def case(task: str, purpose: Purpose) -> Case:
    """The case for one task."""
    what = "Training {} by PPO" if purpose == "training" else "Serving a policy of {}"
    return Case(
        name=f"figure_7_{purpose}_{task}",
        claim=f"{what.format(task)} on one GPU: the best of 2 to 10 GMIs by plain sharing and under MPS, "
        "capped and not, against one process that has the GPU alone, each with its best number of environments.",
        unit="steps/s",
        open=opener(task, purpose),
        obstacle=requirements.warp_on_gpu,
        reference=PAPER[purpose],
        limits="On one GPU. The best number of environments is searched for once, by short measurements. Numbers of "
        "GMIs that were not measured for lack of time are in the details of the result.",
        is_baseline_first=True,
    )


PURPOSES: tuple[Purpose, ...] = ("training", "serving")
CASES = tuple(case(task, purpose) for purpose in PURPOSES for task in TASK_SPECS)
