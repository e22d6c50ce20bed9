"""A running Ray cluster as the data of a cluster file."""

import platform

from gmi_drl.errors import MachineError
from gmi_drl.hardware.cluster import Cluster, Network, Nodes
from gmi_drl.hardware.node import Cpu, Gpus, Node
from gmi_drl.launch.ray.cluster import RayNode, connected, nodes
from gmi_drl.launch.ray.network import measured_network
from gmi_drl.units import GIB

ASSUMED = Network(gbit_per_s=10, round_trip_ms=0.2)
"""Assumed if the network cannot be measured. A cluster file can have other values."""


def described_cluster() -> Cluster:
    """Describe the running cluster: its nodes by Ray's data, its network as measured to this node.

    Raises:
        MachineError: if no cluster can be joined, or it has no node with cores.
    """
    with connected():
        found = [node for node in nodes() if node.cpus]
        if not found:
            raise MachineError("no node of the Ray cluster has cores to give away")
        network = measured_network(found) or ASSUMED
    return Cluster(name="ray", network=network, nodes=tuple(Nodes(node=described(node)) for node in found))


def described(node: RayNode) -> Node:
    """Describe one node. Its processor is assumed to be of this machine's architecture."""
    gpus = Gpus(model=node.gpu_model or "unknown", count=node.gpus) if node.gpus else None
    cpu = Cpu(cores=node.cpus, memory_gib=max(node.memory_bytes / GIB, 0.1), architecture=platform.machine())
    return Node(name=node.name, gpus=gpus, link="pcie" if node.gpus > 1 else "none", cpu=cpu)
