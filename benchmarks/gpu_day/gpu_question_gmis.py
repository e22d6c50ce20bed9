"""Questions 8 and 10: measurements of our GMIs that share the GPU, with plain sharing and with MPS."""

import os
import platform
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import stages
from gpu_question_helpers import attempt, folder, has_mps, say
from stages import REHEARSAL

from gmi_drl import run_role
from gmi_drl.benchmarks.cases import find_case
from gmi_drl.benchmarks.cases.common.shared_gpu import CAPPED_MPS, MPS, PLAIN, shared, sizes_of
from gmi_drl.config.run_config import default_config
from gmi_drl.errors import GmiError
from gmi_drl.gmi.inventory import this_node
from gmi_drl.layout.layout import GmiGroup, Layout
from gmi_drl.layout.reductions import legal_reductions
from gmi_drl.profiler.session import Measured, Session
from gmi_drl.profiler.sessions import Sessions
from gmi_drl.templates import TCG_EX
from gmi_drl.workload import TASK_SPECS

REDUCER, PROBE = (Path(__file__).with_name(f"gpu_question_{name}.py") for name in ("reducer", "probe"))
PARAMETERS = (114_121, 500_000, 1_535_765)
"""The paper's smallest and largest networks (Table 7), and one between."""
SIZES = (2, 4, 8)
TRIED = ("IPC", "MPR-shm")
"""Reductions to try for GMIs that share a GPU; the first does not go through the host."""
MEASURE_S = 1.5
WALK_S = 0.5


def latency() -> None:
    """Question 8. Report microseconds by method and number of float32 parameters, as rank 0 measures them."""
    for name, way in ways():
        for size in sizes_of(way, SIZES, this_node()):
            attempt(f"{name} k={size}", partial(reductions, size, way))


def reductions(size: int, way: str) -> dict[str, Any]:
    """Time our reductions between GMIs that share the GPU; those that fail are reported as well.

    Raises:
        RuntimeError: if MPS does not serve all of them.
    """
    run = folder("run-")
    whole, groups = every_reduction(layout(size, way))
    try:
        run_role(f"{REDUCER}:Reducer", whole, {"groups": groups}, run_dir=run, hang_s=20)
        error = {}
    except GmiError as failure:
        error = {"error": str(failure)[:1000]}
    log = run / "logs" / "gmi-0.log"
    told = stages.facts(log.read_text(errors="replace"))[0] if log.exists() else {}
    if not error:
        require_clients(told["mps_clients"], size, way)
    return told | error


def require_clients(served: int, size: int, way: str) -> None:
    """Check that GMIs shared the GPU in the way that their row names.

    Raises:
        RuntimeError: if MPS does not serve all GMIs that should be its clients, or serves others.
    """
    if served != (wanted := 0 if way == PLAIN else size):
        raise RuntimeError(f"MPS serves {served} of {size} GMIs, {wanted} are to be its clients")


def sharing(task: str, totals: str, *sizes: str) -> None:
    """Question 10. Steps per second of a training with a fixed total of environments, by way and number of GMIs.

    Gradients are summed by the first reduction of `TRIED` that runs; the row names it.

    Raises:
        SystemExit: if none of the reductions runs.
    """
    several = [int(total) for total in totals.split(",")]
    fine = []
    for name, way in every_way():
        for size in sizes_of(way, [int(size) for size in sizes], this_node()):
            tried = TRIED if size > 1 else ("none",)
            each = (
                attempt(f"{name} k={size} {method}", partial(speeds, task, size, several, way, method))
                for method in tried
            )
            fine.append(any(each))
    if not all(fine):
        raise SystemExit(1)


def speeds(task: str, size: int, totals: Sequence[int], way: str, method: str) -> dict[str, Any]:
    """Steps per second of all GMIs, by their total number of environments. Kernels are compiled before.

    Raises:
        RuntimeError: if MPS does not serve all of them.
    """
    told = dict[str, Any]()
    with probes(task, size, way, method) as sessions:
        for total in totals:
            one = sessions[size].measure(total // size, MEASURE_S)
            told["mps_clients"] = sum(row["attached"] for row in one.rows)
            require_clients(told["mps_clients"], size, way)
            told[str(total)] = figures(one)
    return told


def solo(task: str, num_envs: str, seconds: str) -> None:
    """Speed of one GMI that has the device alone, for several numbers of environments, each for `WALK_S`.

    Then the two fastest are measured for longer; other results are compared with them.

    Raises:
        SystemExit: if none of them runs.
    """
    found: dict[int, float] = {}
    with probes(task, 1, PLAIN, "none") as sessions:

        def measure(num_env: int, window_s: float) -> dict[str, Any]:
            try:
                one = sessions[1].measure(num_env, window_s)
            except GmiError:
                sessions.close(1)  # the next way starts anew
                raise
            found[num_env] = one.steps_per_second
            return figures(one)

        for num_env in map(int, num_envs.split(",")):
            attempt(f"{num_env}", partial(measure, num_env, WALK_S))
        for num_env in sorted(found, key=found.__getitem__, reverse=True)[:2]:
            attempt(f"{num_env} for {seconds} s", partial(measure, num_env, float(seconds)))
    if not found:
        raise SystemExit(1)


def probes(task: str, size: int, way: str, method: str) -> Sessions[int]:
    """A session with the probes of a layout, which report whether MPS serves their GMI."""
    config, one = default_config(TASK_SPECS[task]), layout(size, way, task, method)
    return Sessions({size: Session(one, config, role=f"{PROBE}:AttachedProbe")}, "a first day on a GPU")


def case(name: str) -> None:
    """Measure a case of `gmi-drl bench` once in its quick size, also if this machine lacks what it needs."""
    found = find_case(name)
    with found.open(True) as sides:
        for side, measure in sides.items():
            say(**{side: measure().value})


def figures(one: Measured) -> dict[str, Any]:
    """The key figures of a measurement."""
    return {
        "steps_per_second": round(one.steps_per_second),
        "relative_error": round(one.relative_error, 3),
        "memory_bytes": one.memory_bytes,
        **{phase: round(seconds, 4) for phase, seconds in one.phases.items()},
        **{name: round(value, 3) for usage in one.devices.values() for name, value in usage.items()},
    }


def ways() -> Iterator[tuple[str, str]]:
    """Plain sharing and, if available, MPS: the name, and the `Cut.way`. The backend starts its own daemon.

    A rehearsal runs both, the second without MPS if there is none.
    """
    yield "plain", PLAIN
    if has_mps():
        yield "mps", MPS
    elif REHEARSAL in os.environ:
        yield "mps", PLAIN


def every_way() -> Iterator[tuple[str, str]]:
    """`ways`, and MPS with caps."""
    for name, way in ways():
        yield name, way
        if name == "mps":
            yield "mps, capped", CAPPED_MPS if way == MPS else way


def layout(size: int, way: str, task: str = "ant", method: str | None = None) -> Layout:
    """A layout with a number of GMIs on the GPU, or on cores if there is none.

    Raises:
        ValueError: if they cannot reduce by `method`.
    """
    whole = shared(task, this_node(), TCG_EX, size, way)
    groups = {name: group.model_copy(update={"reduction": method}) for name, group in whole.groups.items()}
    named = whole.model_copy(update={"groups": groups} if method else {})
    return type(whole).model_validate(named.model_dump())


def every_reduction(whole: Layout) -> tuple[Layout, dict[str, dict[str, int]]]:
    """A layout with the same GMIs in a group for each legal reduction and each of `PARAMETERS`.

    Each number of parameters needs its own bucket, and so its own group: reducing a part of a bucket is slower.

    Returns:
        The layout; by method its groups, each with its parameters.
    """
    mapping = [[gmi.id for gmi in device.gmis] for device in whole.devices]
    members = tuple(gmi.id for gmi in whole.gmis)
    legal = [method.name for method in legal_reductions(mapping, whole.devices[0].kind, platform.machine())]
    names = {method: {f"{method}-{count}": count for count in PARAMETERS} for method in legal}
    groups = {name: GmiGroup(members=members, reduction=method) for method, some in names.items() for name in some}
    return whole.model_copy(update={"groups": groups}), names
