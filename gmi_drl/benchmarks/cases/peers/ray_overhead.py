"""The cost of starting GMIs by Ray: the same GMIs on the same cores, started by Ray and by this machine's launcher."""

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial

import psutil

from gmi_drl.benchmarks.case import Case, Sample, Sides
from gmi_drl.benchmarks.cases.common import requirements
from gmi_drl.benchmarks.cases.common.own_clusters import held_by
from gmi_drl.benchmarks.cases.sharing import gmis_against_solo

NUM_ENV = 256
SECONDS, QUICK_SECONDS = 10.0, 1.0
WARM_UP_S = 1.0
CORES = 2


@contextmanager
def open_sides(quick: bool) -> Iterator[Sides]:
    """Both sides. Each sample starts and ends everything, because an idle cluster would disturb the other side."""
    seconds = QUICK_SECONDS if quick else SECONDS
    yield {f"--launcher {name}": partial(measure, name, seconds) for name in ("ray", "local")}


def measure(launcher: str, seconds: float) -> Sample:
    """Steps per second; details have the seconds of starting and ending, and CPU seconds of Ray's own processes."""
    from gmi_drl.config.run_config import default_config
    from gmi_drl.launch.launchers import layout_for
    from gmi_drl.profiler.session import Session
    from gmi_drl.workload import TASK_SPECS

    layout = layout_for(launcher, gmis_against_solo.layouts()[gmis_against_solo.OURS])
    session = Session(layout, default_config(TASK_SPECS["ant"]))
    began_s = time.monotonic()
    with ExitStack() as life:
        devices = life.enter_context(held_by(launcher, layout))
        opened_s = time.monotonic()
        session.start(devices)
        life.callback(session.close)
        started_s = time.monotonic()
        session.measure(NUM_ENV, WARM_UP_S)
        cpu_s, before_s = _cpu_of_ray(), time.monotonic()
        measured = session.measure(NUM_ENV, seconds)
        cpu_s, wall_s = _cpu_of_ray() - cpu_s, time.monotonic() - before_s
        ending_s = time.monotonic()
    return Sample(
        measured.steps_per_second,
        {
            "cluster_and_agent_s": opened_s - began_s,
            "start_gmis_s": started_s - opened_s,
            "end_s": time.monotonic() - ending_s,
            "cpu_of_ray_s": cpu_s,
            "measured_s": wall_s,
            "share_of_cores": cpu_s / wall_s / CORES,
        },
    )


def _cpu_of_ray() -> float:
    """CPU seconds of Ray's daemons, of the supervisor's actor, and of our process that talks to them."""
    total = 0.0
    for process in psutil.Process().children(recursive=True):
        try:
            command = " ".join(process.cmdline())
            if "gmi_drl" not in command or "gmi_drl.launch.ray" in command:
                times = process.cpu_times()
                total += times.user + times.system
        except psutil.NoSuchProcess:
            continue
    return total


def _obstacle() -> str | None:
    return requirements.simulation_on_cores(CORES) or requirements.package("ray", "ray")


CASE = Case(
    name="ray_overhead",
    claim="Training Ant by PPO with two GMIs of one core and 256 environments each: started on a Ray cluster of one "
    "node, against started by this machine.",
    unit="steps/s",
    open=open_sides,
    obstacle=_obstacle,
    reference="Aim: 0.97, or the cores' share of Ray's own processes (`share_of_cores`) explains the rest",
    limits="One machine, and a cluster of the case's own, so nothing goes over a network. Ray's processes may also use "
    "cores that the GMIs do not have.",
    repeats=5,
)
