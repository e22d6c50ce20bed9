"""Nodes: the hardware that a plan is made for, of this machine or described in a node file."""

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cached_property
from itertools import accumulate, combinations
from typing import Annotated, Literal, Self, get_args

from pydantic import Field, model_validator

from gmi_drl.files import FileModel
from gmi_drl.hardware.gpus import find_gpu

IN_ORDER = ("x86_64", "AMD64")
"""Processors that keep the order of stores and of loads; only large copies need a fence."""

FENCED = (*IN_ORDER, "aarch64")
"""Processors on which processes may share memory, since `comm.memory.fence` has a fence for them; others use gloo.

Nothing has been run on aarch64 (Grace) yet.
"""

LinkKind = Literal["nvswitch", "nvlink", "pcie", "none"]
"""The link between two GPUs, best first: NVLink through a switch, NVLink, PCIe only; `none` for a single GPU. MIG
devices have no link between them."""

KINDS: tuple[LinkKind, ...] = get_args(LinkKind)
"""Best first."""

MOST = 10_000_000
"""Cores or GPUs of a node at most."""

Count = Annotated[int, Field(ge=1, le=MOST)]


class Gpus(FileModel):
    """GPUs of one model, e.g. `{model: A100-SXM4-40GB, count: 8, memory_gib: 40}`."""

    model: str
    """By any name that `hardware/gpus.py` knows, or another one."""

    count: Count
    """How many."""

    memory_gib: Annotated[float, Field(gt=0)] | None = None
    """Memory of each; None: as the catalogue (`hardware/gpus.py`) gives it. If it does not have the model either, a
    plan cannot check the memory."""

    @property
    def known_memory_gib(self) -> float | None:
        """Memory of each GPU, as given or from the catalogue; None if neither."""
        if self.memory_gib is None and (gpu := find_gpu(self.model)) is not None:
            return gpu.memory_gib
        return self.memory_gib


class CpuDevices(FileModel):
    """Cores cut into devices, for nodes without GPUs."""

    cores_each: Count
    """Cores of a device."""

    count: Count
    """How many devices."""


class Cpu(FileModel):
    """The host."""

    cores: Count
    """Usable cores."""

    memory_gib: Annotated[float, Field(gt=0)]
    """Memory in GiB."""

    siblings: tuple[tuple[int, ...], ...] | None = None
    """Groups of indices of cores that are hardware threads of one physical core; None: each is a physical core."""

    architecture: str = "x86_64"
    """The output of `uname -m`."""

    @model_validator(mode="after")
    def _siblings_cover_the_cores(self) -> Self:
        if self.siblings is not None and sorted(c for group in self.siblings for c in group) != list(range(self.cores)):
            raise ValueError(f"siblings must hold each core 0..{self.cores - 1} once, got {self.siblings}")
        return self

    @cached_property
    def physical(self) -> tuple[tuple[int, ...], ...]:
        """Core indices by physical core, in order of the first index."""
        return tuple(sorted(self.siblings)) if self.siblings is not None else tuple(zip(range(self.cores)))


class Links(FileModel):
    """GPUs, every two of which have a link of one kind, e.g. `{gpus: [0, 1, 2, 3], kind: nvlink}`."""

    gpus: Annotated[tuple[Annotated[int, Field(ge=0)], ...], Field(min_length=2)]
    """Their indices."""

    kind: LinkKind
    """`nvswitch`, `nvlink` or `pcie`."""


class Node(FileModel):
    """One machine (a *node file*, `version: 1`).

    Indices of GPUs count within `CUDA_VISIBLE_DEVICES`, those of cores within the cores that the process may use.
    """

    version: Literal[1] = 1
    """Of the format."""

    name: str
    """Its name."""

    gpus: Gpus | tuple[Gpus, ...] | None = None
    """Its GPUs; models in the order of the indices; None: no GPU."""

    cpus: CpuDevices | None = None
    """How cores are cut into devices without GPUs; None: they are one device."""

    used: Annotated[tuple[Annotated[int, Field(ge=0)], ...], Field(min_length=1)] | None = None
    """Indices of the GPUs that a plan uses; None: all."""

    link: LinkKind = "none"
    """What links GPUs that `links` does not name."""

    links: tuple[Links, ...] = ()
    """GPUs with better links."""

    cpu: Cpu
    """The host."""

    @model_validator(mode="after")
    def _devices_fit_the_cores(self) -> Self:
        if self.cpus is not None and self.cpus.cores_each * self.cpus.count > self.cpu.cores:
            wanted = f"{self.cpus.count} x {self.cpus.cores_each} cores"
            raise ValueError(f"cpus asks for {wanted}, cpu.cores has {self.cpu.cores}")
        return self

    @model_validator(mode="after")
    def _used_gpus_exist(self) -> Self:
        count = len(self.model_of_each_gpu)
        if self.used is not None and (list(self.used) != sorted(set(self.used)) or self.used[-1] >= count):
            raise ValueError(f"used must list indices of its {count} GPUs, ascending, each once, got {list(self.used)}")
        return self

    @model_validator(mode="after")
    def _links_name_each_pair_once(self) -> Self:
        count, named = len(self.model_of_each_gpu), set[tuple[int, int]]()
        for links in self.links:
            if KINDS.index(links.kind) >= KINDS.index(self.link):
                raise ValueError(f"links of kind {links.kind} are no better than `link: {self.link}`: leave them out")
            if missing := [gpu for gpu in links.gpus if gpu >= count]:
                raise ValueError(f"links name GPU {missing[0]}, the node has {count}")
            for pair in combinations(sorted(links.gpus), 2):
                if pair in named or pair[0] == pair[1]:
                    raise ValueError(f"links name GPUs {pair[0]} and {pair[1]} twice")
                named.add(pair)
        return self

    def only(self, gpus: Iterable[int]) -> "Node":
        """The node with only the GPUs of these indices in use."""
        return self.model_copy(update={"used": tuple(sorted(gpus))})

    @property
    def gpu_indices(self) -> Sequence[int]:
        """Indices of the GPUs in use, ascending."""
        return range(sum(part.count for part in self.gpu_models)) if self.used is None else self.used

    @property
    def num_gpus(self) -> int:
        """The number of GPUs in use."""
        return len(self.gpu_indices)

    @property
    def model_of_each_gpu(self) -> tuple[str, ...]:
        """The model of each GPU by index, as the node names it."""
        return tuple(part.model for part in self.gpu_models for _ in range(part.count))

    @property
    def num_devices(self) -> int:
        """The number of devices to cut: GPUs in use, or else CPU devices, or else 1 for all cores."""
        return self.num_gpus or (self.cpus.count if self.cpus else 1)

    @property
    def cores_of_a_device(self) -> int:
        """Cores of each device of a node without GPUs."""
        return self.cpus.cores_each if self.cpus else self.cpu.cores

    @property
    def gpu_memory_gib(self) -> float | None:
        """Memory of the smallest GPU in use; None without GPUs, or if that of a model is not known."""
        sizes = [part.known_memory_gib for part in self.used_models]
        known = [size for size in sizes if size is not None]
        return min(known) if known and len(known) == len(sizes) else None

    @property
    def gpu_models(self) -> tuple[Gpus, ...]:
        """Its GPUs by model, in the order of their indices; empty without GPUs."""
        return self.gpus if isinstance(self.gpus, tuple) else (self.gpus,) if self.gpus else ()

    @property
    def used_counts(self) -> Counter[str]:
        """The number of GPUs in use of each model, by the name in the node."""
        counts = Counter[str]()
        for part in self.used_models:
            counts[part.model] += part.count
        return counts

    @property
    def used_models(self) -> tuple[Gpus, ...]:
        """As `gpu_models`, only of GPUs in use."""
        if self.used is None:
            return self.gpu_models
        ends = list(accumulate(part.count for part in self.gpu_models))
        counts = Counter(bisect_right(ends, index) for index in self.used)
        return tuple(self.gpu_models[place].model_copy(update={"count": counts[place]}) for place in sorted(counts))
