"""`gmi-drl doctor`."""

from collections.abc import Callable
from typing import NamedTuple

import rich_click as click

from gmi_drl.cli.output import console, format_option, print_json
from gmi_drl.errors import GmiError, MachineError

Finding = tuple[str, str]
"""What was seen, and the remedy if that is a fault (else empty)."""


class Check(NamedTuple):
    """One thing that a training needs (or, if not `is_needed`, can use)."""

    name: str
    look: Callable[[], Finding]
    is_needed: bool = True


@click.command()
@format_option
def doctor(format: str) -> None:
    """Check what this machine has and lacks; exit with 4 if a training could not run."""
    rows = [{"check": check.name, **_examine(check)} for check in CHECKS]
    if format == "json":
        print_json("doctor", {"checks": rows})
    else:
        _print(rows)
    failed = [row["check"] for row in rows if row["verdict"] == "missing"]
    if failed:
        raise MachineError(f"this machine cannot train: {', '.join(failed)}")


def _examine(check: Check) -> dict[str, str]:
    try:
        seen, remedy = check.look()
    except (ImportError, OSError, GmiError) as error:
        seen, remedy = str(error) or type(error).__name__, "see the message"
    verdict = "ok" if not remedy else "missing" if check.is_needed else "not here"
    return {"verdict": verdict, "seen": seen, "remedy": remedy}


def _print(rows: list[dict[str, str]]) -> None:
    from rich.markup import escape
    from rich.table import Table

    table = Table("check", "", "seen", "what to do", box=None, padding=(0, 2, 0, 0))
    for row in rows:
        color = {"ok": "green", "missing": "red"}.get(row["verdict"], "yellow")
        table.add_row(row["check"], f"[{color}]{row['verdict']}[/{color}]", escape(row["seen"]), escape(row["remedy"]))
    console().print(table)


def _torch() -> Finding:
    import torch

    return f"{torch.__version__}", ""


def _mujoco() -> Finding:
    from importlib.util import find_spec

    if find_spec("mujoco") is None or find_spec("mujoco.batch") is None:
        return "mujoco.batch cannot be imported", "pip install 'gmi-drl[mujoco]'"
    from importlib.metadata import version

    return version("mujoco"), ""


def _cores() -> Finding:
    from gmi_drl.gmi.inventory import allowed_cores, cgroup_quota
    from gmi_drl.units import counted

    cores, quota = allowed_cores(), cgroup_quota()
    limit = "" if quota is None else f", cgroup quota {quota:g}"
    most = f"for {counted(len(cores), 'GMI')} at most: more would take turns (share_cores)"
    return f"{len(cores)} ({_ranges(cores)}){limit}, {most}", ""


def _memory() -> Finding:
    import psutil

    from gmi_drl.gmi.inventory import memory_bytes
    from gmi_drl.units import human_bytes

    return f"{human_bytes(psutil.virtual_memory().available)} free of {human_bytes(memory_bytes())}", ""


def _shared_memory() -> Finding:
    import os
    import platform

    from gmi_drl.memory.segment import create_segment
    from gmi_drl.reductions import usual_reduction

    os.close(create_segment(2, 2**20))
    return f"memfd works, reductions by {usual_reduction([[0, 1]], platform.machine()).name}", ""


def _claims() -> Finding:
    from gmi_drl.gmi.claims import claim, claims_folder

    with claim(["doctor"], "doctor"):
        return f"locks in {claims_folder()}", ""


def _gpus() -> Finding:
    from gmi_drl.gmi.inventory import this_node

    gpus = this_node().gpus
    if not gpus:
        return "none", "none is needed: the cores are cut into GMIs"
    parts = gpus if isinstance(gpus, tuple) else (gpus,)
    return ", ".join(f"{part.count} x {part.model}" for part in parts), ""


def _ranges(numbers: list[int]) -> str:
    """`[0, 1, 2, 5]` -> `"0-2,5"`."""
    groups: list[list[int]] = []
    for number in numbers:
        if groups and groups[-1][-1] == number - 1:
            groups[-1].append(number)
        else:
            groups.append([number])
    return ",".join(str(group[0]) if len(group) == 1 else f"{group[0]}-{group[-1]}" for group in groups)


CHECKS = (
    Check("torch", _torch),
    Check("mujoco", _mujoco, is_needed=False),
    Check("cores", _cores),
    Check("memory", _memory),
    Check("shared memory", _shared_memory),
    Check("claims", _claims),
    Check("GPUs", _gpus, is_needed=False),
)
