"""What `gmi-drl doctor --cluster ray` finds on each node of a cluster."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gmi_drl.launch.ray.report import NodeReport


def look() -> list[dict[str, str]]:
    """A row for each node of the Ray cluster, as the checks of one machine have them.

    Raises:
        GmiError: if there is no cluster to be had.
    """
    from gmi_drl.launch.ray.cluster import connected, nodes
    from gmi_drl.launch.ray.report import report

    with connected():
        return rows_of(report(nodes()))


def rows_of(reports: Sequence["NodeReport"]) -> list[dict[str, str]]:
    """The first is the launcher's node, by which the others are judged."""
    return [_row(report, reports[0]) for report in reports]


def _row(report: "NodeReport", first: "NodeReport") -> dict[str, str]:
    remedy = _remedy(report, first)
    return {
        "check": f"node {report.node.name}",
        "verdict": "missing" if remedy else "ok",
        "seen": report.fault or _seen(report),
        "remedy": remedy,
    }


def _seen(report: "NodeReport") -> str:
    from gmi_drl.units import counted

    node = report.node
    gpus = f", {counted(node.gpus, 'GPU')}{f' ({node.gpu_model})' if node.gpu_model else ''}" if node.gpus else ""
    versions = ", ".join(f"{name} {has or 'not installed'}" for name, has in report.versions.items())
    return f"{node.address}, {counted(node.cpus, 'CPU')}{gpus}; {versions}"


def _remedy(report: "NodeReport", first: "NodeReport") -> str:
    node = report.node
    if report.fault:
        return "`ray status` there; gmi-drl must be installed for the Python that runs `ray start`"
    if not report.reaches:
        return f"let {node.address} open TCP connections to {first.node.address}, to any port"
    if node.cpus > report.cores:
        return f"Ray gives away {node.cpus} CPUs where it may use {report.cores} cores: ray start --num-cpus"
    if others := [name for name, has in report.versions.items() if has != first.versions.get(name, has)]:
        wanted = ", ".join(f"{name} {first.versions[name] or '(none)'}" for name in others)
        return f"install what {first.node.name} has: {wanted}"
    return ""
