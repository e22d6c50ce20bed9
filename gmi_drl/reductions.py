"""The ways to sum gradients over a group of GMIs (paper section 4.1): what each needs and costs, where its code is."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import Literal

from gmi_drl.hardware import STORES_IN_ORDER
from gmi_drl.mapping import MappingList, mrr_obstacle, shortest
from gmi_drl.registry import Registry
from gmi_drl.speeds import GLOO, GPU_MEMORY, LINK, MEMORY, NCCL, Speeds
from gmi_drl.units import alternatives

Kind = Literal["cpu", "gpu"]
"""Of the devices that a group's GMIs are on: all of them are of one."""

Obstacle = Callable[[MappingList, Kind | None], str | None]
"""Why GMIs that lie so on devices of that kind cannot use a method; None if they can, or if the kind decides."""


@dataclass(frozen=True)
class Leg:
    """What a reduction does one way: `rounds`, one after the other, in which a rank moves `share` of the bucket."""

    way: str
    rounds: int
    share: float


@dataclass(frozen=True)
class ReductionMethod:
    """A way, as layouts name it.

    Args:
        name: E.g. "MPR-shm".
        how: In words, for the reasons of a plan.
        group: `module:class` of the `comm.group.Group` that its ranks form, made of a `Membership` and a `Spot`.
        reduction: `module:class` of the `comm.reduction.Reduction` over that group.
        meets_in: What the ranks are given to meet in: a segment of shared memory for all, a path of their own, or
            links between all with a segment for each device (`comm.spots`).
        legs: What it does on a mapping list, for `seconds`.
        refuses: Which mapping lists it is not for.
        architectures: Processors on which it is right, as `uname -m` says; None for all.
        package: What it needs beside ours, which is an extra of that name; None for nothing.
    """

    name: str
    how: str
    group: str
    reduction: str
    meets_in: Literal["segment", "path", "links", "nothing"]
    legs: Callable[[MappingList], Sequence[Leg]]
    refuses: Obstacle | None = None
    architectures: tuple[str, ...] | None = None
    package: str | None = None

    def missing(self) -> str | None:
        """What this machine lacks for it, with the remedy; None if nothing. Imports nothing."""
        try:
            if self.package:
                version(self.package)
        except PackageNotFoundError:
            remedy = f"pip install 'gmi-drl[{self.package}]', see docs/baselines.md"
            return f"reduction {self.name!r} needs {self.package}, which is not installed: {remedy}"
        return None

    def obstacle(self, mapping: MappingList, kind: Kind | None = None, architecture: str | None = None) -> str | None:
        """Why a group that lies so cannot use it, and what can; None if it can.

        Args:
            mapping: The GMIs of each device.
            kind: Of the devices; without it that is not asked.
            architecture: Of the processor; without it that is not asked.
        """
        if self.refuses and (why := self.refuses(mapping, kind)):
            others = [other.name for other in _installed() if not (other.refuses and other.refuses(mapping, kind))]
            return f"reduction {self.name!r} {why}: use {alternatives(others)}"
        if architecture and not self.runs_on(architecture):
            return f"{self.name} needs a processor of {', '.join(self.architectures or ())}, this is {architecture}"
        return None

    def runs_on(self, architecture: str) -> bool:
        """Whether it is right on such a processor."""
        return self.architectures is None or architecture in self.architectures

    def is_for(self, mapping: MappingList, kind: Kind, architecture: str) -> bool:
        """Whether GMIs that lie so on devices of that kind can use it on such a processor."""
        return not (self.refuses and self.refuses(mapping, kind)) and self.runs_on(architecture)

    def seconds(self, mapping: MappingList, bucket_bytes: float, speeds: Speeds) -> float:
        """What reducing once takes by the model: rounds and bytes of each leg at the speeds of its way."""
        return sum(
            leg.rounds * speeds[leg.way].round_s + leg.share * bucket_bytes / speeds[leg.way].bytes_per_second
            for leg in self.legs(mapping)
        )


def _size(mapping: MappingList) -> int:
    return sum(map(len, mapping))


def _is_for_one(mapping: MappingList, kind: Kind | None) -> str | None:
    size = _size(mapping)
    return None if size == 1 else f"is for a GMI alone, not for {size}"


def _rings_refuse(mapping: MappingList, kind: Kind | None) -> str | None:
    return mrr_obstacle(mapping)


def _is_for_one_gpu(mapping: MappingList, kind: Kind | None) -> str | None:
    if len(mapping) > 1:
        return f"is for GMIs of one GPU, not of {len(mapping)} devices"
    return _is_for_gpus(mapping, kind)


def _is_for_gpus(mapping: MappingList, kind: Kind | None) -> str | None:
    return "is for GMIs on GPUs, not on cores" if kind == "cpu" else None


def _shares_a_gpu(mapping: MappingList, kind: Kind | None) -> str | None:
    most = max(map(len, mapping))
    return f"needs a GPU for each GMI, as NCCL does, not {most} on one" if kind == "gpu" and most > 1 else None


def _nothing(mapping: MappingList) -> list[Leg]:
    return []


def _within(way: str, size: int) -> Leg:
    """All-reduce among so many: 2 (n - 1) M / n (Table 5)."""
    return Leg(way, 2, 2 * (size - 1) / size)


def _ring(size: int) -> Leg:
    """All-reduce along a ring: each round a chunk, of n."""
    return Leg(LINK, 2 * (size - 1), 2 * (size - 1) / size)


def _mpr_shm(mapping: MappingList) -> list[Leg]:
    return [_within(MEMORY, _size(mapping))]


def _mpr_gloo(mapping: MappingList) -> list[Leg]:
    return [_within(GLOO, _size(mapping))]


def _mrr(mapping: MappingList) -> list[Leg]:
    """A ring between the devices, one of the delegates, and the broadcast along the first."""
    devices, gmis = len(mapping), len(mapping[0])
    rings = [_ring(devices)] if gmis == 1 else [_ring(devices), _ring(gmis), Leg(LINK, devices - 1, 1)]
    return [Leg(MEMORY, 1, 0), *rings]


def _har(mapping: MappingList) -> list[Leg]:
    """As MPR within the largest device, its leader's ring, and copies of what comes of it."""
    return [_within(MEMORY, max(map(len, mapping))), _ring(len(mapping)), Leg(MEMORY, 2, 1)]


def _shard(mapping: MappingList) -> list[Leg]:
    """As HAR with as many leaders of a device as the least has GMIs; what a device sends is the same."""
    return [_within(MEMORY, max(map(len, mapping))), _ring(len(mapping)), Leg(MEMORY, 2, 1 - 1 / shortest(mapping))]


def _ipc(mapping: MappingList) -> list[Leg]:
    return [_within(GPU_MEMORY, _size(mapping))]


def _nccl_flat(mapping: MappingList) -> list[Leg]:
    return [_within(NCCL, _size(mapping))]


def _torch(mapping: MappingList) -> list[Leg]:
    """A way of its own, whose speed nobody measures: a plan takes no baseline."""
    return [_within("torch", _size(mapping))]


def _horovod(mapping: MappingList) -> list[Leg]:
    """See `_torch`."""
    return [_within("horovod", _size(mapping))]


NONE = ReductionMethod(
    "none",
    "nothing to sum",
    "gmi_drl.comm.groups.alone:Alone",
    "gmi_drl.comm.reductions.alone:Solo",
    meets_in="nothing",
    legs=_nothing,
    refuses=_is_for_one,
)
MPR_SHM = ReductionMethod(
    "MPR-shm",
    "gradients meet in host memory (multi-process reduction, paper section 4.1)",
    "gmi_drl.comm.groups.shared_memory:SharedMemoryGroup",
    "gmi_drl.comm.reductions.mpr_shm:SharedMemoryReduction",
    meets_in="segment",
    legs=_mpr_shm,
    architectures=STORES_IN_ORDER,
)
MPR_GLOO = ReductionMethod(
    "MPR-gloo",
    "gradients meet in host memory (multi-process reduction, paper section 4.1)",
    "gmi_drl.comm.groups.gloo:GlooGroup",
    "gmi_drl.comm.reductions.mpr_gloo:GlooReduction",
    meets_in="path",
    legs=_mpr_gloo,
)
MRR = ReductionMethod(
    "MRR",
    "rings between the devices, then a ring of their delegates (multi-ring reduction, paper section 4.1)",
    "gmi_drl.comm.groups.placed:PlacedGroup",
    "gmi_drl.comm.reductions.mrr:MultiRingReduction",
    meets_in="links",
    legs=_mrr,
    refuses=_rings_refuse,
    architectures=STORES_IN_ORDER,
)
HAR = ReductionMethod(
    "HAR",
    "within each device, then between one leader of each (hierarchical reduction, paper section 4.1)",
    "gmi_drl.comm.groups.placed:PlacedGroup",
    "gmi_drl.comm.reductions.har:HierarchicalReduction",
    meets_in="links",
    legs=_har,
    architectures=STORES_IN_ORDER,
)
SHARD = ReductionMethod(
    "SHARD",
    "as HAR, but each GMI of a device takes a part of the sum to the other devices",
    "gmi_drl.comm.groups.placed:PlacedGroup",
    "gmi_drl.comm.reductions.shard:ShardedReduction",
    meets_in="links",
    legs=_shard,
    architectures=STORES_IN_ORDER,
)
IPC = ReductionMethod(
    "IPC",
    "gradients meet in the memory of their GPU, which all its GMIs have mapped (CUDA IPC)",
    "gmi_drl.comm.groups.ipc:IpcGroup",
    "gmi_drl.comm.reductions.ipc:IpcReduction",
    meets_in="segment",
    legs=_ipc,
    refuses=_is_for_one_gpu,
    architectures=STORES_IN_ORDER,
)
NCCL_FLAT = ReductionMethod(
    "NCCL-flat",
    "all GMIs are ranks of one NCCL communicator, also those of the same GPU (NCCL 2.30)",
    "gmi_drl.comm.groups.nccl:NcclGroup",
    "gmi_drl.comm.reductions.nccl:NcclReduction",
    meets_in="path",
    legs=_nccl_flat,
    refuses=_is_for_gpus,
)

TORCH = ReductionMethod(
    "torch",
    "torch.distributed's all_reduce, by gloo on cores and NCCL on GPUs: a baseline",
    "gmi_drl.comm.groups.torch_group:TorchGroup",
    "gmi_drl.comm.reductions.torch_reduction:TorchReduction",
    meets_in="path",
    legs=_torch,
    refuses=_shares_a_gpu,
)
HOROVOD = ReductionMethod(
    "horovod",
    "Horovod's allreduce, by its gloo in host memory: a baseline",
    "gmi_drl.comm.groups.horovod_group:HorovodGroup",
    "gmi_drl.comm.reductions.mpr_gloo:GlooReduction",
    meets_in="path",
    legs=_horovod,
    package="horovod",
)

OWN = (NONE, MPR_SHM, MPR_GLOO, MRR, HAR, SHARD, IPC, NCCL_FLAT, TORCH, HOROVOD)

REDUCTIONS = Registry("reduction", "gmi_drl.reductions", OWN)
"""Third parties add entries of their own by entry points: `NAME = "module:METHOD"`, a `ReductionMethod`."""


def _installed() -> list[ReductionMethod]:
    return [method for method in REDUCTIONS.usable() if not method.missing()]


def usual_reduction(mapping: MappingList, architecture: str) -> ReductionMethod:
    """The one for GMIs of one host where nothing is known of speeds: shared memory where the processor allows it."""
    if sum(map(len, mapping)) == 1:
        return NONE
    return MPR_SHM if MPR_SHM.runs_on(architecture) else MPR_GLOO


def legal_reductions(mapping: MappingList, kind: Kind, architecture: str) -> list[ReductionMethod]:
    """All installed ones that GMIs can use that lie so on devices of that kind, those of other packages, too."""
    return [method for method in _installed() if method.is_for(mapping, kind, architecture)]


def by_speed(
    mapping: MappingList, bucket_bytes: float, speeds: Speeds, kind: Kind, architecture: str
) -> list[tuple[float, ReductionMethod]]:
    """Ours that can be used, with what reducing once takes by the model, in seconds: the fastest first.

    One with a way whose speed is not known is left out. What other packages add is taken by its name alone.
    """
    legal = [method for method in REDUCTIONS.own if method.is_for(mapping, kind, architecture)]
    known = [method for method in legal if all(leg.way in speeds for leg in method.legs(mapping))]
    timed = [(method.seconds(mapping, bucket_bytes, speeds), method) for method in known]
    return sorted(timed, key=lambda pair: pair[0])
