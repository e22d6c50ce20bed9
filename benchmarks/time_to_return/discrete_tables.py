"""The tables of trainings: returns, CPU seconds and steps to the threshold, and steps per CPU second."""

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import product
from statistics import median, quantiles
from typing import NamedTuple

from discrete_tasks import SIDES, SPEED_TASKS, TASKS, runs
from resumable import Run
from trainings import Settings
from two_means import chance

from gmi_drl.benchmarks.statistics import ends, ratios

LATE = 0.1
"""The last part of the steps, whose episodes count."""
RECENT = 20
"""Episodes, at least, whose mean return must reach a threshold."""
WARM_UP = 5
"""Updates of a measured speed that do not count."""
RESAMPLES = 5_000


def tell() -> None:
    """Print both tables."""
    tell_learnt(TASKS, SIDES, runs("learn"))
    tell_speeds(SPEED_TASKS, SIDES, runs("speed"))


def tell_learnt(tasks: Mapping[str, Settings], sides: Sequence[str], trained: Sequence[Run]) -> None:
    """Print the table of returns. The first side is ours; p is of a permutation test of the means (`chance`)."""
    print(
        f"{'learn':15} {'side':17} {'late returns of all seeds':36} {'median':>7} {'quartile':>9} "
        f"{'ratio of ours, 95 %':21} {'p':>4} CPU s to the threshold"
    )
    for task, settings in tasks.items():
        ours = _runs_of(task, sides[0], trained)
        for side in sides:
            if of := _runs_of(task, side, trained):
                print(f"{task:15} {side:17} {_learnt(settings.threshold, of, ours)}")


def tell_speeds(tasks: Iterable[str], sides: Sequence[str], measured: Sequence[Run]) -> None:
    """Print steps per CPU second of each round or seed, and megabytes of the replay of what has one.

    Runs that ended within the first updates have no speed.
    """
    measured = [run for run in measured if len(run["updates"]) > WARM_UP]
    print(f"\n{'speed':15} {'side':17} {'steps per CPU second of all rounds':36} {'median':>7}   ratio of ours, 95 %")
    for task in tasks:
        by_side = {side: [run for run in measured if (run["task"], run["side"]) == (task, side)] for side in sides}
        speeds = {side: {run["seed"]: speed_of(run) for run in of} for side, of in by_side.items()}
        for side, of in by_side.items():
            if of:
                listed = [speeds[side][seed] for seed in sorted(speeds[side])]
                ratio = "" if side == sides[0] else _ratio_of_rounds(speeds[sides[0]], speeds[side])
                memory = f"   replay of {of[0]['replay_bytes'] / 1e6:.0f} MB" if "replay_bytes" in of[0] else ""
                print(f"{task:15} {side:17} {_listed(listed):36} {median(listed):7.0f}   {ratio}{memory}".rstrip())


def tell_steps(tasks: Mapping[str, Settings], sides: Sequence[str], trained: Sequence[Run]) -> None:
    """Print the steps to the threshold of each seed, in thousands, of the tasks that have one."""
    with_threshold = {task: of.threshold for task, of in tasks.items() if of.threshold is not None}
    if not with_threshold:
        return
    print(f"\n{'steps':15} {'side':17} {'thousands to the threshold':36} {'median':>7}")
    for (task, threshold), side in product(with_threshold.items(), sides):
        of = _runs_of(task, side, trained)
        reached = [reached_at(run, threshold) for run in of]
        steps = [at.env_steps / 1000 for at in reached if at is not None]
        if of:
            middle = f"{median(steps):7.0f}" if len(steps) == len(of) else ""
            print(f"{task:15} {side:17} {_listed_of(steps, len(of)):36} {middle}".rstrip())


def _runs_of(task: str, side: str, trained: Sequence[Run]) -> list[Run]:
    """Those of a task and a side, by their seeds."""
    return sorted((run for run in trained if (run["task"], run["side"]) == (task, side)), key=lambda run: run["seed"])


def _ratio_of_rounds(ours: Mapping[int, float], theirs: Mapping[int, float]) -> str:
    """The median of the rounds' ratios with its bounds: within a round the machine is the same for all sides."""
    rounds = sorted(ours.keys() & theirs.keys())
    found = ratios([ours[one] for one in rounds], [theirs[one] for one in rounds], lower_is_better=False)
    if not found:
        return ""
    low, high = ends(found)
    return f"{median(found):.2f} ({low:.2f}-{high:.2f})"


def _learnt(threshold: float | None, of: Sequence[Run], of_ours: Sequence[Run]) -> str:
    """The columns of one side."""
    late, ours = ([late_return(run) for run in side] for side in (of, of_ours))
    ratio = "" if of == of_ours else _ratio(ours, late)
    apart = "" if of == of_ours or len(late) + len(ours) < 4 else f"{chance(ours, late):.2f}"
    columns = f"{_listed(late):36} {median(late):7.1f} {_lower(late):9.1f} {ratio:21} {apart:>4}"
    if threshold is None:
        return columns
    reached = [reached_at(run, threshold) for run in of]
    return f"{columns} {_listed_of([at.cpu_s for at in reached if at is not None], len(of))}"


def _listed(values: Sequence[float]) -> str:
    return " ".join(f"{value:.0f}" for value in values)


def _listed_of(values: Sequence[float], count: int) -> str:
    """Those of so many runs that reached it, and how many did not."""
    missed = [f"{count - len(values)} not reached"] if len(values) < count else []
    return ", ".join([_listed(values), *missed] if values else missed)


def _lower(values: Sequence[float]) -> float:
    """The lower quartile."""
    return quantiles(values, n=4)[0] if len(values) > 1 else values[0]


def _ratio(ours: Sequence[float], theirs: Sequence[float]) -> str:
    """The ratio of medians with its interval; nothing of few seeds, or of negative returns."""
    if min(len(ours), len(theirs)) < 2 or min(*ours, *theirs) <= 0:
        return ""
    low, high = interval(ours, theirs)
    return f"{median(ours) / median(theirs):.2f} ({low:.2f}-{high:.2f})"


def late_return(run: Run) -> float:
    """The mean return of the episodes that ended in the last tenth of the steps."""
    late = [of for of in run["updates"] if of[0] > (1 - LATE) * run["env_steps"]]
    return sum(total for *_, total in late) / max(1, sum(count for _, _, count, _ in late))


def recent(run: Run) -> list[float | None]:
    """At each update the mean return of the last episodes, `RECENT` or more; None before there are as many."""
    means, window = list[float | None](), list[tuple[int, float]]()
    for _, _, episodes, total in run["updates"]:
        window.append((episodes, total))
        while sum(count for count, _ in window[1:]) >= RECENT:
            window.pop(0)
        count = sum(count for count, _ in window)
        means.append(sum(of for _, of in window) / count if count >= RECENT else None)
    return means


class Reached(NamedTuple):
    """When the mean of the last episodes reached a threshold."""

    env_steps: int
    cpu_s: float


def reached_at(run: Run, threshold: float) -> Reached | None:
    """When the mean of the last episodes reaches the threshold; None if it never does."""
    for (env_steps, cpu_s, *_), mean in zip(run["updates"], recent(run), strict=True):
        if mean is not None and mean >= threshold:
            return Reached(env_steps, cpu_s)
    return None


def speed_of(run: Run) -> float:
    """Environment steps per CPU second, without the first updates."""
    first, last = run["updates"][WARM_UP - 1], run["updates"][-1]
    return float((last[0] - first[0]) / (last[1] - first[1]))


def interval(ours: Sequence[float], theirs: Sequence[float]) -> tuple[float, float]:
    """The 95 % interval of the ratio of medians by the percentile bootstrap; both sides are resampled independently."""
    generator = random.Random(0)
    drawn: Callable[[Sequence[float]], float] = lambda of: median(generator.choices(of, k=len(of)))  # noqa: E731
    cuts = quantiles([drawn(ours) / drawn(theirs) for _ in range(RESAMPLES)], n=40)
    return cuts[0], cuts[-1]
