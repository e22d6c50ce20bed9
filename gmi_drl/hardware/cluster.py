"""Several machines and the network between them: a *cluster file*."""

import re
from collections import Counter
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from gmi_drl.errors import UsageError
from gmi_drl.files import FileModel, load_yaml
from gmi_drl.hardware.node import MOST, Cpu, CpuDevices, Gpus, Node
from gmi_drl.hardware.signature import NODE_NAME
from gmi_drl.hardware.speeds import LINK, OF_CORES, Speed, Speeds


class Network(FileModel):
    """The network between nodes, the same for every two of them."""

    gbit_per_s: Annotated[float, Field(gt=0)]
    """The most that a node sends or receives."""

    round_trip_ms: Annotated[float, Field(ge=0)]
    """The time of a round trip."""

    @property
    def speed(self) -> Speed:
        """The speed of a link between nodes. A round takes half a round trip, plus the time of sockets."""
        one_way_s = self.round_trip_ms / 2000
        return Speed(round_s=OF_CORES[LINK].round_s + one_way_s, bytes_per_second=self.gbit_per_s * 1e9 / 8)


class Nodes(FileModel):
    """Equal machines, described by `node` or by `file`."""

    count: Annotated[int, Field(ge=1, le=100_000)] = 1
    """How many."""

    node: Node | None = None
    """Their description; None: it is in `file`."""

    file: Path | None = None
    """A node file, by its path from the cluster file; None: `node` has it."""

    @model_validator(mode="after")
    def _has_node_or_file(self) -> Self:
        if (self.node is None) == (self.file is None):
            raise ValueError("nodes are described by `node` or by `file`, one of them")
        return self

    @property
    def kind(self) -> Node:
        """The description of one of them."""
        assert self.node is not None
        return self.node

    def cut_by(self, cores: int) -> "Nodes":
        """These machines, each cut into devices of `cores` cores if it has more."""
        count = self.kind.cpu.cores // cores
        cpus = CpuDevices(cores_each=cores, count=count) if count > 1 else None
        return Nodes(count=self.count, node=self.kind.model_copy(update={"cpus": cpus}))


class Cluster(FileModel):
    """A cluster file (`version: 1`)."""

    version: Literal[1] = 1
    """Of the format."""

    name: str = "cluster"
    """Its name."""

    network: Network
    """The network between the nodes."""

    nodes: Annotated[tuple[Nodes, ...], Field(min_length=1)]
    """The kinds of machines."""

    @model_validator(mode="after")
    def _each_named_once(self) -> Self:
        if any(part.node is None for part in self.nodes):
            return self  # their files are not read yet
        if mistake := self.name_mistake:
            raise ValueError(mistake)
        return self

    @property
    def name_mistake(self) -> str:
        """Which names two kinds or two machines have, or which cannot be a machine's; empty if there is no mistake."""
        if wrong := [part.kind.name for part in self.nodes if not re.fullmatch(NODE_NAME, part.kind.name)]:
            return f"names of nodes in a cluster have letters, digits, _, . and -, not {', '.join(map(repr, wrong))}"
        kinds = Counter(part.kind.name for part in self.nodes)
        names = Counter(name for name, _ in self.named())
        twice = dict.fromkeys(name for name, count in (*kinds.items(), *names.items()) if count > 1)
        return f"nodes of one name: {', '.join(twice)}: give their kinds others" if twice else ""

    @property
    def count(self) -> int:
        """The number of machines."""
        return sum(part.count for part in self.nodes)

    def named(self) -> Iterator[tuple[str, Node]]:
        """Each machine with a unique name: that of its kind, with a number if there are several."""
        for part in self.nodes:
            if part.count == 1:
                yield part.kind.name, part.kind
            else:
                yield from ((f"{part.kind.name}-{number}", part.kind) for number in range(part.count))

    @cached_property
    def in_devices(self) -> "Cluster":
        """The cluster with equal devices: a node with k times the cores of the smallest becomes k devices.

        So all GMIs have equal cores and environments, and larger nodes have more GMIs. Nodes with GPUs, and nodes with
        equal numbers of cores, stay as they are.

        Raises:
            UsageError: if cores are not multiples of the smallest node's, or nodes define `cpus` themselves.
        """
        if any(part.kind.num_gpus for part in self.nodes):
            return self
        sizes = sorted({part.kind.cores_of_a_device for part in self.nodes})
        if len(sizes) == 1:
            return self
        sizes_text, least = f"{self.name} has nodes of {' and '.join(map(str, sizes))} cores", sizes[0]
        if any(part.kind.cpus for part in self.nodes):
            raise UsageError(f"{sizes_text}, but their `cpus` cuts them in another way: leave `cpus` out")
        if any(size % least for size in sizes):
            raise UsageError(f"{sizes_text}: take nodes whose cores are multiples of the smallest's, {least}")
        return self.model_copy(update={"nodes": tuple(part.cut_by(least) for part in self.nodes)})

    @property
    def devices_by_node(self) -> tuple[int, ...]:
        """The number of devices of each machine."""
        return tuple(part.kind.num_devices for part in self.nodes for _ in range(part.count))

    @cached_property
    def whole(self) -> Node:
        """All machines as if they were one: the sums of their devices by model, and of their cores.

        Devices are cut alike, so the memory counts that each has on the machine that has least of it for each.

        Raises:
            UsageError: if only some have GPUs; if none has, and `in_devices` refuses their cores; or if they have more
                than `MOST` cores in all.
        """
        kinds = [part.kind for part in self.nodes]
        cores = sum(part.count * part.kind.cpu.cores for part in self.nodes)
        if cores > MOST:
            raise UsageError(f"{self.name} has {cores} cores in all, {MOST} can be planned: leave nodes out")
        architectures = {kind.cpu.architecture for kind in kinds}
        if len(architectures) > 1:
            raise UsageError(f"{self.name} has processors of {' and '.join(sorted(architectures))}: take nodes of one")
        if len({bool(kind.num_gpus) for kind in kinds}) > 1:
            raise UsageError(f"{self.name} has nodes with GPUs and nodes without: make a cluster file of each")
        alike = self.in_devices
        least_gib = min(part.kind.cpu.memory_gib / part.kind.num_devices for part in alike.nodes)
        memory_gib = least_gib * sum(alike.devices_by_node)
        cpu = Cpu(cores=cores, memory_gib=memory_gib, architecture=architectures.pop())
        if all(kind.num_gpus for kind in kinds):
            counts: dict[Gpus, int] = {}
            for part in self.nodes:
                for model in part.kind.used_models:
                    alone = model.model_copy(update={"count": 1})
                    counts[alone] = counts.get(alone, 0) + part.count * model.count
            gpus = tuple(model.model_copy(update={"count": count}) for model, count in counts.items())
            return Node(name=self.name, gpus=gpus if len(gpus) > 1 else gpus[0], link="pcie", cpu=cpu)
        cpus = CpuDevices(cores_each=alike.nodes[0].kind.cores_of_a_device, count=sum(alike.devices_by_node))
        return Node(name=self.name, cpus=cpus, cpu=cpu)

    def speeds(self, within: Speeds | None) -> Speeds:
        """The speeds of the ways between GMIs: those `within` a node, except for links, which use the network."""
        return {**(within or OF_CORES), LINK: self.network.speed}


def load_cluster(path: Path) -> Cluster:
    """Read and check a cluster file and the node files that it names.

    Raises:
        UsageError: with every mistake in it.
    """
    cluster = load_yaml(Cluster, path)
    nodes = tuple(
        part if part.file is None else Nodes(count=part.count, node=load_yaml(Node, path.parent / part.file))
        for part in cluster.nodes
    )
    cluster = cluster.model_copy(update={"nodes": nodes})
    if mistake := cluster.name_mistake:
        raise UsageError(f"{path}: {mistake}")
    return cluster
