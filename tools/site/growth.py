"""The table of growth: exponents, and where growth bends, from the committed results."""

import math
from collections.abc import Sequence
from statistics import median

from gmi_drl.benchmarks.case import CURVES
from gmi_drl.benchmarks.cases.common.growing import BEND, bend, exponent
from gmi_drl.benchmarks.report import Results
from gmi_drl.benchmarks.result import SampleRecord
from tools.site.markdown import table

CURVED = {
    "growth_environments": ("an iteration of PPO on Ant, by environments", ""),
    "growth_gmis": ("an iteration of PPO on Ant, by GMIs on two cores", ""),
    "growth_parameters": ("an update of PPO, by parameters", ""),
    "growth_plans": ("a plan, by GPUs of the cluster", ""),
    "replay_growth": ("a prioritized draw of 1024, by items of the ring", "replay.md"),
}
"""Results whose samples have seconds by size: what grows, and the page with them, if it is another one."""
FULL = 0.9
"""A server is full from this part of its highest rate on."""

TITLES = ("what", "sizes", "exponent", "in the last step", "bends or full", "result")
WORDS = f"""## Exponents

Seconds by size as a power law, fitted to the medians over the rounds; 1 is growth in proportion, 0 is none. The last
step is from the second largest size to the largest. It *bends* at the first size at which a unit costs {BEND}
times the cheapest unit of a smaller size, or more. A server is *full* at the fewest clients that together have
{FULL:.0%} of its highest rate: more clients share it.
"""
Row = tuple[str, ...]


def growth_table(results: Results) -> str:
    """A row for each size that grows; those without a result are named as not measured yet."""
    rows = [_curved(name, results) for name in CURVED]
    if "replay_clients" in results:
        for side, column in results["replay_clients"].samples.items():
            clients, rates = _medians(column)
            seconds = [count / rate for count, rate in zip(clients, rates, strict=True)]
            what = f"an item of each client of a server ({side}), by clients"
            full = next(count for count, rate in zip(clients, rates, strict=True) if rate >= FULL * max(rates))
            rows.append(_row(what, clients, seconds, "[replay_clients](replay.md#replay_clients)", f"full at {full}"))
    return "\n".join([WORDS, table(TITLES, rows)])


def _curved(name: str, results: Results) -> Row:
    what, there = CURVED[name]
    if name not in results:
        return (what, "", "not measured yet", "", "", f"`gmi-drl bench {name}`")
    (column,) = results[name].samples.values()
    sizes, seconds = _medians(column)
    bends = bend(sizes, seconds)
    return _row(what, sizes, seconds, f"[{name}]({there}#{name})", "nowhere" if bends is None else f"{bends:,}")


def _medians(column: Sequence[SampleRecord]) -> tuple[list[float], list[float]]:
    """Sizes, and the median over the samples of the second list of their curves."""
    curves = [list(sample.details[CURVES].values()) for sample in column]
    return curves[0][0], [median(each) for each in zip(*(ys for _, ys in curves), strict=True)]


def _row(what: str, sizes: Sequence[float], seconds: Sequence[float], link: str, limit: str) -> Row:
    last = math.log(seconds[-1] / seconds[-2]) / math.log(sizes[-1] / sizes[-2])
    return what, f"{sizes[0]:,} to {sizes[-1]:,}", f"{exponent(sizes, seconds):.2f}", f"{last:.2f}", limit, link
