"""Whether Ant learns, and where the time goes: trainings of one seed after another, each as `make train` starts it."""

import statistics
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from gmi_drl.bench.case import CURVES, Case, Sample, Sides
from gmi_drl.bench.cases import needs
from gmi_drl.errors import GmiError

if TYPE_CHECKING:
    from gmi_drl.layout import Layout

NUM_ENV = 256
SECONDS, QUICK_SECONDS = 120.0, 5.0
ITERATIONS = 100_000  # more than the time allows


@contextmanager
def open_sides(quick: bool) -> Iterator[Sides]:
    """One side; its seeds are 1, 2, 3 and so on."""
    seconds = QUICK_SECONDS if quick else SECONDS
    seeds = count(1)
    with TemporaryDirectory(prefix="gmi-drl-bench-") as folder:
        yield {"gmi-drl": lambda: train_for(seconds, next(seeds), Path(folder))}


def train_for(seconds: float, seed: int, folder: Path) -> Sample:
    """One training on this machine cut evenly."""
    from gmi_drl.gmi.inventory import this_node
    from gmi_drl.scheduler.plan import plan
    from gmi_drl.workload import TASK_SPECS

    layout = plan(TASK_SPECS["ant"], this_node(), num_env=NUM_ENV)
    return train(layout, seed, folder, iterations=ITERATIONS, time_limit_s=seconds)


def train(layout: "Layout", seed: int, folder: Path, **limits: float) -> Sample:
    """One training of Ant, in a new folder within `folder`: its last return, its curves and its phases."""
    from gmi_drl.config import default_config
    from gmi_drl.launch.training import train as launch
    from gmi_drl.run.folder import RunFolder
    from gmi_drl.run.metrics import read_metrics
    from gmi_drl.workload import TASK_SPECS

    run = RunFolder(folder / str(seed))
    run.create()
    outcome = launch(layout, default_config(TASK_SPECS["ant"]).model_copy(update={"seed": seed, **limits}), run)
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
    return Sample(returns[-1], {"seed": seed, "env_steps": steps[-1], **details, CURVES: curves})


CASE = Case(
    name="learning",
    claim="Ant from nothing, two minutes of training for each of five seeds, with a GMI of 256 environments on each "
    "core: the mean return of an episode at the end.",
    unit="return",
    open=open_sides,
    obstacle=lambda: needs.package("mujoco", "mujoco"),
    limits="The seeds (1 to 5) were fixed before the first run; the hyper-parameters were chosen on seed 0 but for one "
    "trial on seed 5, and the staggering of first episodes was added after a first set of curves on the same seeds.",
    repeats=5,
)
