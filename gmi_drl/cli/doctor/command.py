"""`gmi-drl doctor`."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import rich_click as click

from gmi_drl.cli.doctor import gpus
from gmi_drl.cli.doctor.gpus import Finding, ranges
from gmi_drl.cli.doctor.simulators import SIMULATORS, simulator
from gmi_drl.cli.options import format_option
from gmi_drl.cli.output import console, print_json, say
from gmi_drl.errors import GmiError, MachineError, UsageError
from gmi_drl.layout.backends import BACKENDS

SEE_MESSAGE = "see the message"


class Check(NamedTuple):
    """A check of something that a training needs, or only can use if `is_needed` is false.

    `look` returns what is there and the remedy. `fault` is the verdict if something that is not needed has a fault.
    """

    name: str
    look: Callable[[], Finding]
    is_needed: bool = True
    fault: str = "not here"


@click.command()
@click.option("--remove-stale", is_flag=True, help="Remove what killed runs have left: MPS daemons and their folders.")
@click.option("--cluster", type=click.Choice(["ray"]), help="Check the nodes of the Ray cluster instead.")
@format_option
def doctor(remove_stale: bool, cluster: str | None, format: str) -> None:
    """Check what this machine has and lacks for a training; exit with 4 if none could run."""
    if cluster is not None:
        if remove_stale:
            raise UsageError("--remove-stale is for this machine, not for a --cluster: give one of them")
        _check_cluster(format)
        return
    if remove_stale:
        _remove_stale()
    backends = [Check(f"backend {entry.name}", partial(gpus.backend, entry), False) for entry in BACKENDS.usable()]
    rows = [{"check": check.name, **_examine(check)} for check in (*CHECKS, *backends)]
    if format == "json":
        print_json("doctor", {"checks": rows, **_hardware()})
    else:
        _print(rows)
    failed = [row["check"] for row in rows if row["verdict"] == "missing"]
    if failed:
        raise MachineError(f"this machine cannot train: {', '.join(failed)}")
    if format != "json":
        has_ours = any(row["check"] == "mujoco" and row["verdict"] == "ok" for row in rows)
        following = "Next: gmi-drl train ant" if has_ours else "Our own tasks need mujoco (see above)"
        say(f"This machine can train. {following}")


def _check_cluster(format: str) -> None:
    from gmi_drl.cli.doctor.cluster import look

    rows = look()
    if format == "json":
        print_json("doctor", {"checks": rows})
    else:
        _print(rows)
    if failed := [row["check"] for row in rows if row["verdict"] != "ok"]:
        raise MachineError(f"this cluster cannot train: {', '.join(failed)} (see above what to do)")


def _remove_stale() -> None:
    from gmi_drl.gmi.mps import shutdown
    from gmi_drl.gmi.mps.folder import stale

    found = stale()
    left = shutdown.remove_stale()
    removed = ", ".join(str(folder) for folder in found if folder not in stale())
    say(f"Removed what killed runs had left: {removed}" if removed else "Killed runs have left nothing")
    if left:
        raise MachineError("; ".join(left))


def _hardware() -> dict[str, Any]:
    try:
        return gpus.document()
    except GmiError:  # the checks report it
        return {}


def _examine(check: Check) -> dict[str, str]:
    try:
        seen, remedy = check.look()
    except (ImportError, OSError, GmiError) as error:
        seen, remedy = str(error) or type(error).__name__, SEE_MESSAGE
    verdict = "ok" if not remedy else "missing" if check.is_needed else check.fault
    return {"verdict": verdict, "seen": seen, "remedy": remedy}


def _print(rows: list[dict[str, str]]) -> None:
    from rich.markup import escape
    from rich.table import Table

    table = Table("check", "", box=None, padding=(0, 2, 0, 0))
    table.add_column("seen", overflow="fold")  # wrapped, so that UUIDs stay whole
    table.add_column("what to do", overflow="fold")
    first: dict[str, str] = {}
    for row in rows:
        color = {"ok": "green", "missing": "red"}.get(row["verdict"], "yellow")
        check = first.setdefault(row["seen"], row["check"]) if row["remedy"] == SEE_MESSAGE else row["check"]
        seen = row["seen"] if check == row["check"] else f"as {check}"
        table.add_row(row["check"], f"[{color}]{row['verdict']}[/{color}]", escape(seen), escape(row["remedy"]))
    console().print(table)


def _torch() -> Finding:
    import torch

    return f"{torch.__version__}", ""


def _mujoco() -> Finding:
    from importlib.util import find_spec

    if find_spec("mujoco") is None or find_spec("mujoco.batch") is None:
        return "mujoco.batch cannot be imported", "pip install 'gmi-drl[mujoco]'"
    import mujoco

    return mujoco.__version__, ""


def _cores() -> Finding:
    from gmi_drl.gmi.inventory import allowed_cores, cgroup_quota
    from gmi_drl.units import counted

    cores, quota = allowed_cores(), cgroup_quota()
    limit = "" if quota is None else f", cgroup quota {quota:g}"
    most = f"for {counted(len(cores), 'GMI')} at most: more would share cores (share_cores)"
    return f"{len(cores)} ({ranges(cores)}){limit}, {most}", ""


def _memory() -> Finding:
    from gmi_drl.hardware.host_memory import available_bytes, memory_bytes
    from gmi_drl.units import human_bytes

    return f"{human_bytes(available_bytes())} free of {human_bytes(memory_bytes())}", ""


def _shared_memory() -> Finding:
    import os
    import platform

    from gmi_drl.comm.memory.segment import create_segment
    from gmi_drl.layout.reductions import usual_reduction

    os.close(create_segment(2, 2**20))
    return f"memfd works, reductions in host memory by {usual_reduction([[0, 1]], platform.machine()).name}", ""


def _claims() -> Finding:
    from gmi_drl.gmi.claims import claim, claims_folder

    with claim(["doctor"], "doctor"):
        return f"locks in {claims_folder()}", ""


def _stale() -> Finding:
    from gmi_drl.gmi.mps.folder import base, stale

    found = ", ".join(map(str, stale()))
    return (f"left by killed runs: {found}", "gmi-drl doctor --remove-stale") if found else (f"none in {base()}", "")


CHECKS = (
    Check("torch", _torch),
    Check("mujoco", _mujoco, is_needed=False),
    Check("cores", _cores),
    Check("memory", _memory),
    Check("shared memory", _shared_memory),
    Check("claims", _claims),
    Check("driver", gpus.driver, is_needed=False),
    Check("GPUs", gpus.gpus, is_needed=False),
    Check("links", gpus.links, is_needed=False),
    Check("CUDA", gpus.cuda, is_needed=False),
    Check("registered memory", gpus.registering, is_needed=False, fault="refused"),
    Check("Warp", gpus.warp, is_needed=False),
    *(Check(package, partial(simulator, package), is_needed=False) for package in SIMULATORS),
    Check("stale MPS daemons", _stale, is_needed=False, fault="left over"),
)
