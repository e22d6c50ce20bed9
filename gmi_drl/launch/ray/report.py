"""What each node of a Ray cluster has installed, found out by a task on the node."""

import os
import socket
from collections.abc import Sequence
from dataclasses import dataclass

from gmi_drl.launch.nodes.versions import versions_here
from gmi_drl.launch.ray.cluster import RayNode

ANSWER_S = 60.0
REACH_S = 5.0


@dataclass(frozen=True)
class NodeReport:
    """The state of a node: versions by package (`versions.versions_here`), or `fault` if it does not answer.

    `cores` is the number that its processes may use; `reaches` is whether it can connect to this machine, as a
    supervisor will; `niceness` is that of Ray's workers, and so of GMIs.
    """

    node: RayNode
    versions: dict[str, str]
    cores: int = 0
    reaches: bool = False
    niceness: int = 0
    fault: str = ""


def report(nodes: Sequence[RayNode]) -> list[NodeReport]:
    """Run a task on every node at the same time. Takes a minute at most."""
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    address = ray.util.get_node_ip_address()
    with socket.create_server((address, 0), backlog=len(nodes)) as here:  # nobody accepts, so all wait in the queue
        tasks = {
            node.id: ray.remote(_look)
            .options(num_cpus=0, max_retries=0, scheduling_strategy=NodeAffinitySchedulingStrategy(node.id, soft=False))
            .remote(*here.getsockname()[:2])
            for node in nodes
        }
        ray.wait(list(tasks.values()), num_returns=len(tasks), timeout=ANSWER_S)
        reports = []
        for node in nodes:
            try:
                reports.append(NodeReport(node, *ray.get(tasks[node.id], timeout=0)))
            except (ray.exceptions.RayError, TimeoutError) as error:
                last = (str(error).strip().splitlines() or ["no answer"])[-1]
                reports.append(NodeReport(node, {}, fault=last))
    return reports


def _look(host: str, port: int) -> tuple[dict[str, str], int, bool, int]:
    from gmi_drl.gmi.inventory import allowed_cores

    try:
        socket.create_connection((host, port), REACH_S).close()
        reaches = True
    except OSError:
        reaches = False
    return versions_here(), len(allowed_cores()), reaches, os.nice(0)
