"""Sides that are asynchronous trainings on two cores for a number of seconds."""

import time
from itertools import count
from pathlib import Path
from statistics import fmean
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from gmi_drl.benchmarks.case import Sample
from gmi_drl.benchmarks.cases.common import requirements
from gmi_drl.benchmarks.cases.common.two_cores import on_two_cores
from gmi_drl.errors import GmiError
from gmi_drl.gmi.inventory import allowed_cores
from gmi_drl.gmi.inventory.core_load import busy_s

if TYPE_CHECKING:
    from gmi_drl.config.run_config import RunConfig
    from gmi_drl.layout.channels import Channels
    from gmi_drl.layout.layout import Layout

CORES = 2
WARM_UP_S, QUICK_WARM_UP_S = 4.0, 1.0
FOREVER = 10**9
BUSY_S = "busy_s"


def layout_of(task: str, num_env: int, *, gmis: int = 2, channels: "Channels | None" = None) -> "Layout":
    """One trainer and `gmis - 1` agents on two cores; more than two GMIs share the cores."""
    from gmi_drl.layout.cut import Cut
    from gmi_drl.templates import Decoupled

    return on_two_cores(Decoupled(channels=channels), Cut(gmis, num_env, share_cores=gmis > CORES), task=task)


def rates(layout: "Layout", config: "RunConfig", seconds: float, warm_up_s: float = WARM_UP_S) -> Sample:
    """Train, and measure the steps per second that are acted in and learnt from; details have lags in versions.

    The paper's two rates, PPS and TTOP, are equal here, because buffers are bounded and nothing is dropped.

    Raises:
        GmiError: if there were fewer than two updates after the warm-up.
    """
    used = after_warm_up(layout, config, seconds, warm_up_s)
    (first_s, first), *_, (last_s, last) = used
    means = ("lag_mean", "sim_s", "act_s", "wait_s", "fetch_s", "learn_s", "sync_s", "publish_s")
    details = {name: fmean(row[name] for _, row in used) for name in means}
    details |= {"lag_max": max(row["lag_max"] for _, row in used), "updates": float(len(used))}
    return Sample((last["env_steps"] - first["env_steps"]) / (last_s - first_s), details)


def after_warm_up(
    layout: "Layout", config: "RunConfig", seconds: float, warm_up_s: float
) -> "list[tuple[float, dict[str, Any]]]":
    """Train. Returns the rows of `run` after the warm-up.

    Raises:
        GmiError: if there were fewer than two.
    """
    rows = run(layout, config, warm_up_s + seconds)
    used = [row for row in rows if row[0] >= rows[0][0] + warm_up_s]
    if len(used) < 2:
        raise GmiError(f"{len(used)} updates in {seconds:.0f} s are too few for a rate")
    return used


def run(layout: "Layout", config: "RunConfig", seconds: float) -> "list[tuple[float, dict[str, Any]]]":
    """Train for `seconds` in a temporary folder. Returns each row of metrics with the time at which it came.

    Each has one number more, `BUSY_S`: seconds for which the cores of this process were busy, since the machine's boot.
    """
    from gmi_drl.launch.job import resolve
    from gmi_drl.launch.training import train
    from gmi_drl.run.folder import RunFolder

    rows: list[tuple[float, dict[str, Any]]] = []
    timed = config.model_copy(update={"time_limit_s": seconds, "iterations": FOREVER})

    def keep(row: dict[str, Any]) -> None:
        rows.append((time.monotonic(), row | {BUSY_S: busy_s(set(allowed_cores()))}))

    with TemporaryDirectory(prefix="gmi-drl-bench-") as path:
        folder = RunFolder(Path(path) / "run", stays=False)
        folder.create()
        outcome = train(resolve(layout, timed, folder), on_row=keep)
    if outcome.signal is not None:
        raise SystemExit(128 + outcome.signal)
    return rows


def seeds() -> "count[int]":
    """The seeds 1, 2, 3 and so on. Seed 0 is left out, because hyper-parameters were chosen on it."""
    return count(1)


def obstacle() -> str | None:
    """Why this machine cannot run such a training; None if it can."""
    return requirements.simulation_on_cores(CORES)
