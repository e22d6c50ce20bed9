"""Checks of `gmi-drl doctor --cluster ray`: one for each node of a Ray cluster."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gmi_drl.launch.ray.report import NodeReport


def look() -> list[dict[str, str]]:
    """Check each node of the Ray cluster. Returns a row per node, like those of `doctor`'s checks of one machine.

    Raises:
        GmiError: if no cluster can be reached.
    """
    from gmi_drl.launch.ray.cluster import connected, nodes
    from gmi_drl.launch.ray.report import report

    with connected():
        return rows_of(report(nodes()))


def rows_of(reports: Sequence["NodeReport"]) -> list[dict[str, str]]:
    """A row for each report. The first is of the launcher's node, with which the others are compared."""
    return [_row(report, reports[0]) for report in reports]


def _row(report: "NodeReport", first: "NodeReport") -> dict[str, str]:
    remedy = _remedy(report, first)
    return {
        "check": f"node {report.node.name}",
        "verdict": "missing" if remedy else "ok",
        "seen": report.fault or _seen(report),
        "remedy": remedy or _hint(report),
    }


def _seen(report: "NodeReport") -> str:
    from gmi_drl.units import counted

    node = report.node
    gpus = f", {counted(node.gpus, 'GPU')}{f' ({node.gpu_model})' if node.gpu_model else ''}" if node.gpus else ""
    versions = ", ".join(f"{name} {'not installed' if has == '-' else has}" for name, has in report.versions.items())
    return f"{node.address}, {counted(node.cpus, 'CPU')}{gpus}; {versions}"


def _remedy(report: "NodeReport", first: "NodeReport") -> str:
    node = report.node
    if report.fault:
        return "look at `ray status` there; the Python that runs `ray start` needs gmi-drl"
    if not report.reaches:
        return f"let {node.address} open TCP connections to {first.node.address}, to any port"
    if node.cpus > report.cores:
        return f"Ray offers {node.cpus} CPUs but may use only {report.cores} cores: ray start --num-cpus {report.cores}"
    if others := [name for name, has in report.versions.items() if has != first.versions.get(name, has)]:
        wanted = ", ".join(f"{name} {first.versions[name].replace('-', '(none)')}" for name in others)
        return f"install what {first.node.name} has: {wanted}"
    return ""


def _hint(report: "NodeReport") -> str:
    if report.niceness <= 0:
        return ""
    return f"GMIs give way to other work there (nice value {report.niceness}): start Ray with RAY_worker_niceness=0"
