"""The time of a plan for 10,000 GPUs, and of one of workers for the cluster of SRL."""

import gc
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import cycle
from pathlib import Path
from uuid import uuid4

from gmi_drl.benchmarks.case import Case, Sample, Sides
from gmi_drl.benchmarks.peers import REPOSITORY
from gmi_drl.errors import GmiError

GPUS = 10_000
GMIS_EACH = 4
NODES, GPUS_EACH = 1000, 8  # of the cluster
LIMIT_S = 1.0
DEADLINE_S = 120.0

EXAMPLES = REPOSITORY / "examples"
CLUSTER = EXAMPLES / "clusters" / "srl.yaml"
PROFILES = tuple(EXAMPLES / "planning" / f"workers-{name}.json" for name in ("a100", "rtx3090"))
ACTORS, TRAINERS = 12_000, 32
WORKERS_LIMIT_S = 2.0

UNLIKE = ("A100-SXM4-40GB", "H100-SXM5-80GB", "H200", "B200")
"""Models of 10,000 unlike GPUs: each eight are of the next model, again and again."""

SPEEDS = {1: 200_000, 2: 115_000, GMIS_EACH: 65_000, 8: 20_000}
"""Invented steps per second of one GMI, by the number of GMIs on its GPU. `GMIS_EACH` is the best number."""


@contextmanager
def open_sides(quick: bool) -> Iterator[Sides]:
    """The scheduler, with the whole command in the details, and the limit. `quick` makes no difference."""
    with tempfile.TemporaryDirectory(prefix="gmi-drl-planning-") as name:
        folder = Path(name)
        for name, node in nodes().items():
            (folder / f"{name}.yaml").write_text(json.dumps(node))  # JSON is YAML, too
        (folder / "cluster.yaml").write_text(json.dumps(cluster()))
        (folder / "alike.json").write_text(json.dumps(profile("")))
        (folder / "unlike.json").write_text(json.dumps(profile(*UNLIKE)))

        def measure() -> Sample:
            commands = {
                "command_s": command(folder, "alike", GPUS),
                "unlike_10000_s": command(folder, "unlike-10000", GPUS),
                "unlike_1000_s": command(folder, "unlike-1000", GPUS // 10),
                "cluster_8000_s": command(folder, "alike", NODES * GPUS_EACH, "--cluster", "cluster.yaml"),
            }
            return Sample(plan_once(folder), commands)

        yield {"plan 10,000 GPUs": measure, "limit": lambda: Sample(LIMIT_S)}


def profile(*models: str) -> dict[str, object]:
    """The content of a profile file, with points of each of these models."""
    points = [
        {"gmis_per_gpu": gmis, "num_env": 4096, "model": model, "runnable": True, "steps_per_second": speed}
        for model in models
        for gmis, speed in SPEEDS.items()
    ]
    return {"schema": "gmi-drl/profile/2", "task": "ant", "learner": "ppo", "node": "made up", "points": points}


def nodes() -> dict[str, dict[str, object]]:
    """The contents of node files by name: 10,000 equal GPUs, and 10,000 and 1,000 unlike ones."""

    def unlike(count: int) -> dict[str, object]:
        parts = [{"model": model, "count": 8} for model, _ in zip(cycle(UNLIKE), range(count // 8), strict=False)]
        return _node(f"unlike-{count}", parts, count)

    return {"alike": alike(GPUS), f"unlike-{GPUS}": unlike(GPUS), f"unlike-{GPUS // 10}": unlike(GPUS // 10)}


def alike(gpus: int) -> dict[str, object]:
    """The content of a node file of equal GPUs."""
    return _node("alike", {"model": "H100-SXM5-80GB", "count": gpus}, gpus)


def _node(name: str, gpus: object, count: int) -> dict[str, object]:
    return {"name": name, "gpus": gpus, "cpu": {"cores": 8 * count, "memory_gib": 125 * count}}


def cluster() -> dict[str, object]:
    """The content of a cluster file: equal nodes, on a network so fast that all of them are used."""
    gpus = {"model": "H100-SXM5-80GB", "count": GPUS_EACH}
    node = {"name": "eight", "gpus": gpus, "cpu": {"cores": 8 * GPUS_EACH, "memory_gib": 125 * GPUS_EACH}}
    return {"network": {"gbit_per_s": 1000, "round_trip_ms": 0}, "nodes": [{"count": NODES, "node": node}]}


def plan_once(folder: Path, gpus: int = GPUS) -> float:
    """Seconds of planning, from the node and the profile, read anew, to the layout.

    Garbage is not collected meanwhile, as in the command.

    Args:
        folder: Has `alike.yaml` and `alike.json`.
        gpus: Of the node.

    Raises:
        GmiError: if the layout does not have the best number of GMIs.
    """
    from gmi_drl import scheduler
    from gmi_drl.config.run_config import default_config
    from gmi_drl.files import load_yaml
    from gmi_drl.hardware.node import Node
    from gmi_drl.scheduler.profile import load_profile
    from gmi_drl.workload import TASK_SPECS

    task, points = TASK_SPECS["ant"], load_profile(folder / "alike.json")
    node = load_yaml(Node, folder / "alike.yaml")
    node = node.model_copy(update={"name": uuid4().hex})  # a new name, so that nothing is cached
    learner = default_config(task).learner
    gc.disable()
    try:
        start = time.perf_counter()
        grid = scheduler.profile_grid(points, node, learner.horizon)
        layout = scheduler.plan_measured(task, learner, node, points, grid).layout
        seconds = time.perf_counter() - start
    finally:
        gc.enable()
    _check(len(layout.gmis), gpus)
    return seconds


def command(folder: Path, name: str, gpus: int, *where: str) -> float:
    """Seconds of the whole command `gmi-drl plan`, from the start of its process to its end.

    Args:
        folder: The folder of the files.
        name: Name of the node file; up to its first "-" also of the profile.
        gpus: GPUs in all, to check the layout.
        where: Options instead of the node file.

    Raises:
        GmiError: if the command fails, takes longer than `DEADLINE_S`, or does not write the best number of GMIs.
    """
    where = where or ("--node", f"{name}.yaml")
    seconds = _run(folder, "plan", *where, "--profile", f"{name.partition('-')[0]}.json", "-o", "layout.yaml")
    _check((folder / "layout.yaml").read_text().count("{id: "), gpus)
    return seconds


def _run(folder: Path, *arguments: str) -> float:
    """Seconds of `gmi-drl` with these arguments in a folder.

    Raises:
        GmiError: if it fails, or takes longer than `DEADLINE_S`.
    """
    line = [sys.executable, "-c", "from gmi_drl.cli import main; main()", *arguments]
    own = {name: value for name, value in os.environ.items() if not name.startswith("GMI_DRL_PLAN_")}
    start = time.perf_counter()
    try:
        run = subprocess.run(line, cwd=folder, env=own, capture_output=True, text=True, timeout=DEADLINE_S, check=False)
    except subprocess.TimeoutExpired:
        raise GmiError(f"gmi-drl plan has not ended after {DEADLINE_S:.0f} s") from None
    seconds = time.perf_counter() - start
    if run.returncode != 0:
        raise GmiError(f"gmi-drl plan exited with code {run.returncode}: {run.stderr.strip()}")
    return seconds


def _check(count: int, gpus: int) -> None:
    if count != gpus * GMIS_EACH:
        raise GmiError(f"the plan has {count} GMIs, but {gpus * GMIS_EACH} are best: the search is broken")


@contextmanager
def open_workers(quick: bool) -> Iterator[Sides]:
    """The command that plans workers for the cluster of SRL, and the limit. `quick` makes no difference."""
    with tempfile.TemporaryDirectory(prefix="gmi-drl-planning-") as name:
        folder = Path(name)
        profiles = [word for file in PROFILES for word in ("--profile", str(file))]
        arguments = ("plan", "--cluster", str(CLUSTER), "--template", "workers", *profiles, "-o", "layout.yaml")

        def measure() -> Sample:
            before_s = _cpu_s_of_ended()
            seconds = _run(folder, *arguments)
            cpu_s = _cpu_s_of_ended() - before_s
            layout = (folder / "layout.yaml").read_text()
            actors, trainers = layout.count("simulator"), layout.count("roles: [trainer]")
            if (actors, trainers) != (ACTORS, TRAINERS):
                planned = f"{actors} actors and {trainers} trainers"
                raise GmiError(f"the plan has {planned}, but {ACTORS} and {TRAINERS} are best: the search is broken")
            return Sample(cpu_s, {"command_s": seconds})

        yield {"plan workers": measure, "limit": lambda: Sample(WORKERS_LIMIT_S)}


def _cpu_s_of_ended() -> float:
    """CPU seconds of the processes that this one has started and that have ended."""
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    return ended.ru_utime + ended.ru_stime


def _no_examples() -> str | None:
    missing = next((file for file in (CLUSTER, *PROFILES) if not file.is_file()), None)
    return f"{missing} is missing: run it from a checkout of the repository" if missing else None


CASE = Case(
    name="planning",
    claim="A plan for 10,000 GPUs with 4 GMIs each from a profile, against the limit of one second. `command_s` is the "
    "whole `gmi-drl plan`, with the start of Python and a file of 40,000 GMIs; `unlike_10000_s` and `unlike_1000_s` "
    "are the same for as many GPUs of four models, `cluster_8000_s` for a cluster of 1,000 nodes of 8 GPUs, which "
    "should take less than two seconds.",
    unit="s",
    open=open_sides,
    lower_is_better=True,
    limits="The profile is invented and has four points: measuring them is not included. The time grows with the "
    "GMIs. The whole command takes longer than the limit: writing the layout takes more time than finding it.",
    repeats=7,
    guard=0.2,
    floor=0.001,
)

WORKERS_CASE = Case(
    name="planning_workers",
    claim=f"CPU seconds of the whole `gmi-drl plan --cluster --template workers` for the cluster of SRL, {ACTORS:,} "
    f"actors and {TRAINERS} trainers on 68 machines of two kinds, from a profile of each kind, with the start of "
    "Python and the file of the layout; against the limit of two seconds. `command_s` is the time by the clock.",
    unit="s",
    open=open_workers,
    lower_is_better=True,
    obstacle=_no_examples,
    reference="SRL (arXiv 2306.16688), section 3: 12,000 cores and 32 A100",
    limits="The profiles are made up: measuring them is not included.",
    repeats=7,
)

CASES = (CASE, WORKERS_CASE)
