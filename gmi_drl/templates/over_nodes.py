"""A template over the nodes of a cluster: each node is cut as it is alone, and groups are over all of them."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain

from gmi_drl.cluster import Cluster, Network
from gmi_drl.cut import AnyCut
from gmi_drl.hardware import Node
from gmi_drl.layout import Device, GmiGroup, Layout, Projection
from gmi_drl.learners import LearnerConfig, LearnerEntry
from gmi_drl.mapping import MappingList
from gmi_drl.reductions import NONE, REDUCTIONS
from gmi_drl.speeds import LINK, OF_CORES, Speeds
from gmi_drl.templates.cost import Communication, milliseconds
from gmi_drl.templates.template import UNMEASURED, Template
from gmi_drl.units import counted, human_bytes
from gmi_drl.workload import TaskSpec


class OverNodes:
    """See `Template`. The node that its methods are given is the cluster's `whole`.

    Args:
        inner: What is laid on each node: layouts are by this one.
        cluster: The nodes.
    """

    def __init__(self, inner: Template, cluster: Cluster) -> None:
        self.inner, self.cluster = inner, cluster.in_devices
        self.name, self.what, self.purpose = inner.name, inner.what, inner.purpose
        self.usual_learner, self.planner = inner.usual_learner, inner.planner

    def lay_out(
        self,
        task: TaskSpec,
        node: Node,
        cut: AnyCut,
        projection: Projection = UNMEASURED,
        why: Sequence[str] = (),
        communication: Communication | None = None,
    ) -> Layout:
        """See `Template`."""
        kinds = {part.kind.name: self.inner.lay_out(task, part.kind, cut) for part in self.cluster.nodes}
        devices = tuple(self._devices(kinds))
        mapping = [[gmi.id for gmi in device.gmis] for device in devices]
        first = next(iter(kinds.values()))
        members = {name: group.members for name, group in self.inner.groups(mapping, "").items()}
        summing = set(chain.from_iterable(members.values()))
        mapping = [[gmi_id for gmi_id in device if gmi_id in summing] for device in mapping]
        method = communication.method(mapping) if communication and communication.reduces else NONE
        # Where nothing is known of speeds: what crosses hosts wherever GMIs lie on their devices.
        name_of = USUAL if communication is None else method.name
        groups = {name: GmiGroup(members=ids, reduction=name_of) for name, ids in members.items()}
        reasons = [*why, *self._described(kinds, devices), f"{self.name}: {self.what}"]
        if communication and method is not NONE:
            reasons += [f"{method.name}: {method.how}", communication.why(mapping)]
        return Layout(
            task=task.name,
            template=self.name,
            backend=cut.backend,
            share_cores=first.share_cores,
            devices=devices,
            groups=groups,
            projection=projection,
            reasons=tuple(reasons),
        )

    def groups(self, mapping: MappingList, architecture: str) -> dict[str, GmiGroup]:
        """See `Template`: within one node."""
        return self.inner.groups(mapping, architecture)

    def check(self, layout: Layout) -> list[str]:
        """See `Template`."""
        return self.inner.check(layout)

    def communication(
        self, task: TaskSpec, learner: LearnerConfig, node: Node, speeds: Speeds | None = None
    ) -> Communication:
        """See `Template`: links leave a node, at the network's speed."""
        within = self.inner.communication(task, learner, node, speeds)
        return replace(within, devices_by_host=self.cluster.devices_by_node, speeds=self.cluster.speeds(speeds))

    def roles(self, layout: Layout, learner: LearnerEntry) -> Mapping[int, str]:
        """See `Template`."""
        return self.inner.roles(layout, learner)

    def probe(self, learner: LearnerEntry) -> str | None:
        """See `Template`."""
        return self.inner.probe(learner)

    def leaders(self, layout: Layout) -> tuple[int, ...]:
        """See `Template`."""
        return self.inner.leaders(layout)

    def reporters(self, layout: Layout) -> tuple[int, ...]:
        """See `Template`."""
        return self.inner.reporters(layout)

    def _described(self, kinds: Mapping[str, Layout], devices: Sequence[Device]) -> Iterator[str]:
        """How many GMIs, devices and nodes there are in all, and the form of each kind of node, in sentences."""
        what = "GPU" if devices[0].kind == "gpu" else "CPU device"
        gmis, count = sum(len(device.gmis) for device in devices), self.cluster.count
        yield f"{counted(gmis, 'GMI')} on the {counted(len(devices), what)} of {counted(count, 'node')} in all"
        for part in self.cluster.nodes:
            form = kinds[part.kind.name].reasons[0]
            yield f"on each of {part.count} nodes: {form}" if part.count > 1 else form

    def _devices(self, kinds: Mapping[str, Layout]) -> Iterator[Device]:
        """Those of each node, with the ids of GMIs in a row over all nodes."""
        first = 0
        for name, kind in self.cluster.named():
            for device in kinds[kind.name].devices:
                gmis = tuple(gmi.model_copy(update={"id": first + i}) for i, gmi in enumerate(device.gmis))
                yield device.model_copy(update={"node": name, "gmis": gmis})
                first += len(gmis)


USUAL = REDUCTIONS.find("HAR").name
"""Between hosts, where nobody knows speeds."""


def sum_seconds(network: Network, bucket_bytes: int, nodes: int, architecture: str) -> float:
    """Seconds of one sum over so many nodes with a GMI each, by the model."""
    known = Communication(
        reduces=1,
        bucket_bytes=bucket_bytes,
        architecture=architecture,
        devices_by_host=(1,) * nodes,
        speeds={**OF_CORES, LINK: network.speed},
    )
    return known.seconds([[rank] for rank in range(nodes)])


def about_network(communication: Communication, mapping: MappingList, cluster: Cluster, iteration_s: float) -> str:
    """What the network takes of an iteration, in a sentence."""
    spent_s = communication.seconds(mapping)
    part = spent_s / (iteration_s + spent_s) if spent_s else 0.0
    link = f"{cluster.network.gbit_per_s:g} Gbit/s and {cluster.network.round_trip_ms:g} ms there and back"
    return (
        f"{counted(cluster.count, 'node')} joined by {link}: {counted(communication.reduces, 'sum')} of "
        f"{human_bytes(communication.bucket_bytes)} take {milliseconds(spent_s)} of an iteration, {part:.0%} of it"
    )
