"""The cost of resizing GMIs during a run: stop, cut anew, resume (GMI-DRL, section 8)."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from gmi_drl.benchmarks.case import Case, Sample, Sides
from gmi_drl.benchmarks.cases.common import requirements
from gmi_drl.benchmarks.cases.common.two_cores import on_two_cores

if TYPE_CHECKING:
    from gmi_drl.config.run_config import RunConfig
    from gmi_drl.layout.layout import Layout
    from gmi_drl.run.folder import RunFolder

NUM_ENV = 512
"""Of all GMIs together."""

ITERATIONS, QUICK_ITERATIONS = 20, 4
"""Of each layout."""

WARM = 2  # iterations of a start, which are slower

Rows = list[tuple[float, dict[str, Any]]]
"""When each row of metrics came, in seconds, and the row."""


@contextmanager
def open_sides(quick: bool) -> Iterator[Sides]:
    """Trainings that begin with one GMI and go on with two."""
    from gmi_drl.config.run_config import default_config
    from gmi_drl.layout.cut import Cut
    from gmi_drl.templates import TCG_EX
    from gmi_drl.workload import TASK_SPECS

    config = default_config(TASK_SPECS["ant"])
    iterations = QUICK_ITERATIONS if quick else ITERATIONS
    one, two = (on_two_cores(TCG_EX, Cut(gmis, NUM_ENV // gmis)) for gmis in (1, 2))
    yield {"1 GMI, then 2": lambda: resized(one, two, config, iterations)}


def resized(before: "Layout", after: "Layout", config: "RunConfig", iterations: int) -> Sample:
    """Train by one layout, then by the other, so many iterations each.

    Returns:
        Seconds without an iteration: from the last row before to the beginning of the first iteration after. Details
        have the steps/s of both, and after how many seconds the faster one has made up for the pause.
    """
    from gmi_drl.run.folder import RunFolder

    with TemporaryDirectory(prefix="gmi-drl-bench-") as path:
        folder = RunFolder(Path(path) / "run", stays=False)
        folder.create()
        first, checkpoint = _train(before, config.model_copy(update={"iterations": iterations}), folder)
        second, _ = _train(after, config.model_copy(update={"iterations": 2 * iterations}), folder, checkpoint)
    slow, fast = _speed(first), _speed(second)
    (last_s, _), (next_s, row) = first[-1], second[0]
    pause_s = next_s - last_s - (row["env_steps"] - first[-1][1]["env_steps"]) / row["steps_per_second"]
    details = {"steps_per_second_before": slow, "steps_per_second_after": fast}
    if fast > slow:
        details["made_up_after_s"] = pause_s * slow / (fast - slow)
    return Sample(pause_s, details)


def _train(
    layout: "Layout", config: "RunConfig", folder: "RunFolder", checkpoint: Path | None = None
) -> tuple[Rows, Path | None]:
    """Train until the last iteration of the configuration. Returns its rows and its last checkpoint."""
    from gmi_drl.launch.job import resolve
    from gmi_drl.launch.training import train

    rows: Rows = []
    outcome = train(
        resolve(layout, config, folder),
        resume=checkpoint,
        on_row=lambda row: rows.append((time.monotonic(), row)),
    )
    if outcome.signal is not None:
        raise SystemExit(128 + outcome.signal)
    return rows, outcome.checkpoint


def _speed(rows: Rows) -> float:
    speeds: list[float] = [row["steps_per_second"] for _, row in rows[WARM:]]
    return median(speeds)


CASES = (
    Case(
        name="resizing",
        claim=f"What it costs to resize the GMIs of a run that trains Ant with {NUM_ENV} environments on two cores: "
        "seconds without an iteration while it is stopped as one GMI, cut into two, and resumed. Details have the "
        "speeds before and after, and when the faster cut has made up for the pause.",
        unit="s",
        open=open_sides,
        lower_is_better=True,
        obstacle=lambda: requirements.simulation_on_cores(2),
        limits="Episodes begin anew. On a GPU starting takes longer: contexts, graphs, compiled kernels.",
        repeats=5,
        compared=False,
    ),
)
