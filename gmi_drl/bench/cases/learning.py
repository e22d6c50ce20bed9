"""Whether the tasks learn, and where the time goes: one seed after another, each trained as `make train` does."""

import statistics
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from gmi_drl.bench.case import CURVES, Case, Sample, Sides
from gmi_drl.bench.cases import needs
from gmi_drl.errors import GmiError

if TYPE_CHECKING:
    from gmi_drl.config import RunConfig
    from gmi_drl.layout import Layout

NUM_ENV = 256
QUICK_SECONDS = 5.0
ITERATIONS = 100_000  # more than the time allows
TUNED = "The hyper-parameters were chosen on seed 0, which is not among these, by one run for each choice."


def opener(task: str, seconds: float) -> Callable[[bool], AbstractContextManager[Sides]]:
    """One side; its seeds are 1, 2, 3 and so on."""

    @contextmanager
    def open_sides(quick: bool) -> Iterator[Sides]:
        limit_s, seeds = QUICK_SECONDS if quick else seconds, count(1)
        with TemporaryDirectory(prefix="gmi-drl-bench-") as folder:
            yield {"gmi-drl": lambda: train_for(task, limit_s, next(seeds), Path(folder))}

    return open_sides


def train_for(task: str, seconds: float, seed: int, folder: Path) -> Sample:
    """One training on this machine cut evenly."""
    from gmi_drl.config import default_config
    from gmi_drl.gmi.inventory import this_node
    from gmi_drl.scheduler.plan import plan
    from gmi_drl.workload import TASK_SPECS

    layout, config = plan(TASK_SPECS[task], this_node(), num_env=NUM_ENV), default_config(TASK_SPECS[task])
    return train(layout, config, seed, folder, iterations=ITERATIONS, time_limit_s=seconds)


def train(layout: "Layout", config: "RunConfig", seed: int, folder: Path, **limits: float) -> Sample:
    """One training, in a new folder within `folder`: its last return, its curves and its phases."""
    from gmi_drl.launch.training import train as launch
    from gmi_drl.run.folder import RunFolder
    from gmi_drl.run.metrics import read_metrics

    run = RunFolder(folder / str(seed))
    run.create()
    outcome = launch(layout, config.model_copy(update={"seed": seed, **limits}), run)
    if outcome.signal is not None:
        raise SystemExit(128 + outcome.signal)
    return summarise(seed, read_metrics(run.metrics_file))


def summarise(seed: int, rows: list[dict[str, Any]]) -> Sample:
    """What the metrics of a training say; before the first episode has ended there is no return."""
    from gmi_drl.run.metrics import PHASES

    per_iteration, wall_s = rows[0]["env_steps"], 0.0
    steps, seconds, returns = [], [], []
    for row in rows:
        wall_s += per_iteration / row["steps_per_second"]
        if row["return_mean"] is not None:
            steps.append(row["env_steps"])
            seconds.append(round(wall_s, 3))
            returns.append(round(row["return_mean"], 2))
    if not returns:
        raise GmiError(
            f"seed {seed}: no episode ended in {len(rows)} iterations: this machine is too slow for the case"
        )
    details = {name: statistics.median(row[name] for row in rows) for name in ("steps_per_second", *PHASES)}
    curves = {"environment steps": steps, "seconds of training": seconds, "return of an episode": returns}
    reached = {"env_steps": steps[-1], "first_return": returns[0]}
    return Sample(returns[-1], {"seed": seed, **reached, **details, CURVES: curves})


def case(task: str, name: str, minutes: int, repeats: int, limits: str = TUNED) -> Case:
    """The training of one task."""
    return Case(
        name=name,
        claim=f"{task} from nothing, {minutes} minutes of training for each of {repeats} seeds, with a GMI of "
        f"{NUM_ENV} environments on each core: the mean return of an episode at the end.",
        unit="return",
        open=opener(task, 60.0 * minutes),
        obstacle=lambda: needs.package("mujoco", "mujoco"),
        limits=limits,
        repeats=repeats,
    )


CASES = (
    case(
        "ant",
        "learning",
        minutes=2,
        repeats=5,
        limits="The seeds (1 to 5) were fixed before the first run; the hyper-parameters were chosen on seed 0 but for "
        "one trial on seed 5, and the staggering of first episodes was added after a first set of curves on the same "
        "seeds.",
    ),
    case("anymal", "learning_anymal", minutes=4, repeats=3),
    case("ball_balance", "learning_ball_balance", minutes=2, repeats=3),
    case("franka_cabinet", "learning_franka_cabinet", minutes=4, repeats=3),
    case("humanoid", "learning_humanoid", minutes=10, repeats=3),
    case("shadow_hand", "learning_shadow_hand", minutes=6, repeats=3),
)
