"""What the nodes of a Ray cluster have, each asked on its own machine."""

import socket
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from platform import python_version

from gmi_drl.launch.ray.cluster import RayNode

COMPARED = ("gmi-drl", "torch", "numpy", "mujoco")
ANSWER_S = 60.0
REACH_S = 5.0


@dataclass(frozen=True)
class NodeReport:
    """Answers of a node: versions by package (empty: not installed); `fault` if it gave none.

    `cores` are those that its processes may use; `reaches` is whether it can open a connection to the
    launcher, which an agent will.
    """

    node: RayNode
    versions: dict[str, str]
    cores: int = 0
    reaches: bool = False
    fault: str = ""


def report(nodes: Sequence[RayNode]) -> list[NodeReport]:
    """Ask every node, all at once; takes a minute at most."""
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    address = ray.util.get_node_ip_address()
    with socket.create_server((address, 0)) as here:
        asked = {
            node.id: ray.remote(_look)
            .options(num_cpus=0, max_retries=0, scheduling_strategy=NodeAffinitySchedulingStrategy(node.id, soft=False))
            .remote(*here.getsockname()[:2])
            for node in nodes
        }
        ray.wait(list(asked.values()), num_returns=len(asked), timeout=ANSWER_S)
        reports = []
        for node in nodes:
            try:
                versions, cores, reaches = ray.get(asked[node.id], timeout=0)
                reports.append(NodeReport(node, versions, cores, reaches))
            except (ray.exceptions.RayError, TimeoutError) as error:
                last = (str(error).strip().splitlines() or ["no answer"])[-1]
                reports.append(NodeReport(node, {}, fault=last))
    return reports


def _look(host: str, port: int) -> tuple[dict[str, str], int, bool]:
    from gmi_drl.gmi.inventory import allowed_cores

    try:
        socket.create_connection((host, port), REACH_S).close()
        reaches = True
    except OSError:
        reaches = False
    return {"python": python_version(), **{name: _version(name) for name in COMPARED}}, len(allowed_cores()), reaches


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return ""
