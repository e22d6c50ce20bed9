"""A template over the nodes of a cluster: each node is cut as if alone, and groups include all nodes."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import accumulate, chain, groupby, pairwise
from operator import attrgetter

from gmi_drl.config.learners import LearnerConfig, LearnerEntry
from gmi_drl.hardware.cluster import Cluster, Network
from gmi_drl.hardware.node import Node
from gmi_drl.hardware.speeds import LINK, OF_CORES, SpeedsByBackend
from gmi_drl.layout.backends import PROCESS
from gmi_drl.layout.channels import Streams
from gmi_drl.layout.cut import AnyCut
from gmi_drl.layout.layout import Device, GmiGroup, Layout
from gmi_drl.layout.mapping import MappingList
from gmi_drl.layout.reduction_method import ReductionMethod
from gmi_drl.layout.reductions import usual_across_hosts
from gmi_drl.templates.cost import Communication, milliseconds
from gmi_drl.templates.template import Template
from gmi_drl.units import counted, human_bytes
from gmi_drl.workload import TaskSpec


class OverNodes(Template):
    """See `Template`. Its methods take the cluster's `whole` as their node.

    Args:
        inner: The template for each node, which layouts name.
        cluster: The nodes.
    """

    def __init__(self, inner: Template, cluster: Cluster) -> None:
        self.inner, self.cluster = inner, cluster.in_devices
        self.name, self.what, self.purpose = inner.name, inner.what, inner.purpose
        self.usual_learner, self.planner, self.channels = inner.usual_learner, inner.planner, inner.channels

    def devices(self, node: Node, cut: AnyCut) -> tuple[Device, ...]:
        """See `Template`: the devices of each node, with consecutive ids of GMIs over all nodes."""
        kinds = {part.kind.name: self.inner.devices(part.kind, cut) for part in self.cluster.nodes}
        devices: list[Device] = []
        first = 0
        for name, kind in self.cluster.named():
            for device in kinds[kind.name]:
                gmis = tuple(gmi.model_copy(update={"id": first + i}) for i, gmi in enumerate(device.gmis))
                devices.append(device.model_copy(update={"node": name, "gmis": gmis}))
                first += len(gmis)
        return tuple(devices)

    def form(self, devices: Sequence[Device], cut: AnyCut, node: Node) -> list[str]:
        """See `Template`: the numbers of GMIs, devices and nodes, then the form of each kind of node."""
        kinds = Counter("GPU" if device.kind == "gpu" else "CPU device" for device in devices)
        what = " and ".join(counted(number, kind) for kind, number in kinds.items())
        gmis, count = sum(len(device.gmis) for device in devices), self.cluster.count
        lines = [f"{counted(gmis, 'GMI')} on the {what} of {counted(count, 'node')} in all"]
        for part in self.cluster.nodes:
            form, *_ = self.inner.form(self.inner.devices(part.kind, cut), cut, part.kind)
            lines.append(f"on each of {part.count} nodes: {form}" if part.count > 1 else form)
        return [*lines, f"{self.name}: {self.what}"]

    def usual(self, training: MappingList, node: Node, backend: str) -> ReductionMethod:
        """See `Template`: the usual reduction across hosts."""
        return usual_across_hosts(training, node.cpu.architecture)

    def trainers_of(self, mapping: MappingList) -> MappingList:
        """See `Template`: the trainers of each node."""
        ends = pairwise(accumulate(self.cluster.devices_by_node, initial=0))
        return list(chain.from_iterable(self.inner.trainers_of(mapping[start:end]) for start, end in ends))

    def training_on(self, devices: Sequence[Device]) -> MappingList:
        """See `Template`: the trainers of each node."""
        nodes = (list(own) for _, own in groupby(devices, attrgetter("node")))
        return list(chain.from_iterable(map(self.inner.training_on, nodes)))

    def streams_of(self, devices: Sequence[Device]) -> Streams | None:
        """See `Template`."""
        return self.inner.streams_of(devices)

    def usual_gmis_per_gpu(self, node: Node) -> int:
        """See `Template`. Each node is cut by itself."""
        return max(self.inner.usual_gmis_per_gpu(part.kind) for part in self.cluster.nodes)

    def groups(self, mapping: MappingList, node: Node, backend: str = PROCESS.name) -> dict[str, GmiGroup]:
        """See `Template`, within one node."""
        return self.inner.groups(mapping, node, backend)

    def role_mistakes(self, layout: Layout) -> list[str]:
        """See `Template`."""
        return self.inner.role_mistakes(layout)

    def group_mistakes(self, layout: Layout) -> list[str]:
        """See `Template`."""
        return self.inner.group_mistakes(layout)

    def check(self, layout: Layout) -> list[str]:
        """See `Template`."""
        return self.inner.check(layout)

    def communication(
        self,
        task: TaskSpec,
        learner: LearnerConfig,
        node: Node,
        backend: str = PROCESS.name,
        speeds: SpeedsByBackend | None = None,
    ) -> Communication:
        """See `Template`, with links at the network's speed."""
        within = self.inner.communication(task, learner, node, backend, speeds)
        across = self.cluster.speeds(within.speeds)
        return replace(within, devices_by_host=self.cluster.devices_by_node, speeds=across)

    def roles(self, layout: Layout, learner: LearnerEntry) -> Mapping[int, str]:
        """See `Template`."""
        return self.inner.roles(layout, learner)

    def probe(self, learner: LearnerEntry) -> str | None:
        """See `Template`."""
        return self.inner.probe(learner)

    def leaders(self, layout: Layout) -> tuple[int, ...]:
        """See `Template`."""
        return self.inner.leaders(layout)

    def restartable(self, layout: Layout) -> frozenset[int]:
        """See `Template`."""
        return self.inner.restartable(layout)

    def reporters(self, layout: Layout) -> tuple[int, ...]:
        """See `Template`."""
        return self.inner.reporters(layout)


def sum_seconds(network: Network, bucket_bytes: int, nodes: int, architecture: str) -> float:
    """Predicted seconds of one sum over `nodes` nodes with one GMI each."""
    known = Communication(
        reduces=1,
        bucket_bytes=bucket_bytes,
        architecture=architecture,
        devices_by_host=(1,) * nodes,
        speeds={**OF_CORES, LINK: network.speed},
    )
    return known.seconds([[rank] for rank in range(nodes)])


def about_network(communication: Communication, mapping: MappingList, cluster: Cluster, iteration_s: float) -> str:
    """A sentence with the part of an iteration that the network takes."""
    spent_s = communication.seconds(mapping)
    part = spent_s / (iteration_s + spent_s) if spent_s else 0.0
    link = f"{cluster.network.gbit_per_s:g} Gbit/s and {cluster.network.round_trip_ms:g} ms there and back"
    return (
        f"{counted(cluster.count, 'node')} joined by {link}: {counted(communication.reduces, 'sum')} of "
        f"{human_bytes(communication.bucket_bytes)} take {milliseconds(spent_s)} of an iteration, {part:.0%} of it"
    )
