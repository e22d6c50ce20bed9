"""Questions 8 and 10 of `first_light.py`: GMIs of ours share the GPU, by the backends for plain sharing and MPS."""

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import stages
from first_light_talk import attempt, folder, has_mps

from gmi_drl.bench.cases.shares import CAPPED_MPS, MPS, PLAIN, shared, sizes_of

REDUCER, PROBE = (Path(__file__).with_name(f"first_light_{name}.py") for name in ("reducer", "probe"))
PARAMETERS = (114_121, 500_000, 1_535_765)
"""The paper's smallest and largest networks (Table 7), and one between."""
SIZES = (1, 2, 4, 8)
MEASURE_S = 3.0


def latency() -> None:
    """Question 8. Rank 0 tells microseconds by method and number of float32 parameters."""
    for name, way in ways():
        for size in sizes(way):
            if size > 1:
                attempt(f"{name} k={size}", partial(reductions, size, way))


def reductions(size: int, way: str) -> dict[str, Any]:
    """What GMIs that share the GPU tell of our reductions, also if one of them failed.

    Raises:
        RuntimeError: if MPS does not serve all of them.
    """
    from gmi_drl import run_role
    from gmi_drl.errors import GmiError

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
    """Refuse what was measured by another way of sharing than its row says.

    Raises:
        RuntimeError: if MPS does not serve all GMIs that shall be its clients, or serves some that shall not.
    """
    if served != (wanted := 0 if way == PLAIN else size):
        raise RuntimeError(f"MPS serves {served} of {size} GMIs, {wanted} are to be its clients")


def throughput(totals: Sequence[int]) -> None:
    """Question 10. What a training of Ant does per second, as `gmi-drl plan` measures it."""
    every = [*ways()]
    for name, way in (*every, *(("mps, capped", CAPPED_MPS) for _, way in every if way == MPS)):
        for size in sizes(way):
            attempt(f"{name} k={size}", partial(speeds, size, totals, way))


def speeds(size: int, totals: Sequence[int], way: str) -> dict[str, Any]:
    """Steps per second of all GMIs, by the environments of all of them; kernels are compiled before anything counts.

    Raises:
        RuntimeError: if MPS does not serve all of them.
    """
    from gmi_drl.config import default_config
    from gmi_drl.profiler.session import Session
    from gmi_drl.profiler.sessions import Sessions
    from gmi_drl.workload import TASK_SPECS

    config = default_config(TASK_SPECS["ant"])
    session, told = Session(layout(size, way), config, role=f"{PROBE}:AttachedProbe"), dict[str, Any]()
    with Sessions({size: session}, "first light") as sessions:
        for total in totals:
            one = sessions[size].measure(total // size, MEASURE_S)
            told["mps_clients"] = sum(row["attached"] for row in one.rows)
            require_clients(told["mps_clients"], size, way)
            told[str(total)] = figures(one)
    return told


def figures(one: Any) -> dict[str, float]:
    """What was measured of one layout, in short."""
    return {
        "steps_per_second": round(one.steps_per_second),
        "relative_error": round(one.relative_error, 3),
        "memory_bytes": one.memory_bytes,
        **{phase: round(seconds, 4) for phase, seconds in one.phases.items()},
    }


def ways() -> Iterator[tuple[str, str]]:
    """Plain sharing and, where it is at hand, MPS: the name, and the `Cut.way`. GMIs have daemons of their own."""
    yield "plain", PLAIN
    if has_mps():
        yield "mps", MPS


def layout(size: int, way: str) -> Any:
    """So many GMIs on the GPU; where there is none, on the cores."""
    from gmi_drl.gmi.inventory import this_node
    from gmi_drl.templates import TCG_EX

    return shared("ant", this_node(), TCG_EX, size, way)


def every_reduction(whole: Any) -> tuple[Any, dict[str, dict[str, int]]]:
    """The same GMIs, in a group for each reduction that is legal there and each of `PARAMETERS`.

    A bucket is reduced faster than a part of one, so each number needs a bucket, and so a group, of its own.

    Returns:
        The layout; by method its groups, each with its parameters.
    """
    import platform

    from gmi_drl.layout import GmiGroup
    from gmi_drl.reductions import legal_reductions

    mapping = [[gmi.id for gmi in device.gmis] for device in whole.devices]
    members = tuple(gmi.id for gmi in whole.gmis)
    legal = [method.name for method in legal_reductions(mapping, whole.devices[0].kind, platform.machine())]
    names = {method: {f"{method}-{count}": count for count in PARAMETERS} for method in legal}
    groups = {name: GmiGroup(members=members, reduction=method) for method, some in names.items() for name in some}
    return whole.model_copy(update={"groups": groups}), names


def sizes(way: str) -> list[int]:
    """Numbers of GMIs for which there are cores."""
    from gmi_drl.gmi.inventory import this_node

    return sizes_of(way, SIZES, this_node())
