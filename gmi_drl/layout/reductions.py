"""The reductions, which sum gradients over a group of GMIs (paper section 4.1): their code, and who can use which."""

from gmi_drl.errors import NoFeasiblePlanError
from gmi_drl.hardware.node import FENCED
from gmi_drl.hardware.speeds import GLOO, GPU_MEMORY, MEMORY, NCCL, Speeds
from gmi_drl.layout import reduction_costs
from gmi_drl.layout.mapping import MappingList, mrr_obstacle, size_of
from gmi_drl.layout.reduction_method import Kind, ReductionMethod
from gmi_drl.registry import Registry
from gmi_drl.units import alternatives


def _is_for_one(mapping: MappingList, kind: Kind | None) -> str | None:
    size = size_of(mapping)
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


NONE = ReductionMethod(
    "none",
    "nothing to sum",
    "gmi_drl.comm.groups.single:SingleRankGroup",
    "gmi_drl.comm.reductions.single:NoReduction",
    rendezvous_by="nothing",
    legs=reduction_costs.nothing,
    refuses=_is_for_one,
)
MPR_SHM = ReductionMethod(
    "MPR-shm",
    "gradients are summed in shared host memory (multi-process reduction, paper section 4.1)",
    "gmi_drl.comm.groups.shared_memory:SharedMemoryGroup",
    "gmi_drl.comm.reductions.mpr_shm:SharedMemoryReduction",
    rendezvous_by="segment",
    legs=reduction_costs.flat(MEMORY),
    architectures=FENCED,
)
MPR_GLOO = ReductionMethod(
    "MPR-gloo",
    "gradients are summed in host memory by gloo (multi-process reduction, paper section 4.1)",
    "gmi_drl.comm.groups.gloo:GlooGroup",
    "gmi_drl.comm.reductions.mpr_gloo:GlooReduction",
    rendezvous_by="store",
    legs=reduction_costs.flat(GLOO),
)
MRR = ReductionMethod(
    "MRR",
    "rings between the devices, then a ring of their delegates (multi-ring reduction, paper section 4.1)",
    "gmi_drl.comm.groups.device_aware:DeviceAwareGroup",
    "gmi_drl.comm.reductions.mrr:MultiRingReduction",
    rendezvous_by="links",
    legs=reduction_costs.mrr,
    refuses=_rings_refuse,
    architectures=FENCED,
)
HAR = ReductionMethod(
    "HAR",
    "within each device, then between one leader of each (hierarchical reduction, paper section 4.1)",
    "gmi_drl.comm.groups.device_aware:DeviceAwareGroup",
    "gmi_drl.comm.reductions.har:HierarchicalReduction",
    rendezvous_by="links",
    legs=reduction_costs.har,
    architectures=FENCED,
)
SHARD = ReductionMethod(
    "SHARD",
    "as HAR, but each GMI of a device takes a part of the sum to the other devices",
    "gmi_drl.comm.groups.device_aware:DeviceAwareGroup",
    "gmi_drl.comm.reductions.shard:ShardedReduction",
    rendezvous_by="links",
    legs=reduction_costs.shard,
    architectures=FENCED,
)
IPC = ReductionMethod(
    "IPC",
    "gradients are summed in the memory of their GPU, which all its GMIs have mapped (CUDA IPC)",
    "gmi_drl.comm.groups.ipc:IpcGroup",
    "gmi_drl.comm.reductions.ipc:IpcReduction",
    rendezvous_by="segment",
    legs=reduction_costs.flat(GPU_MEMORY),
    refuses=_is_for_one_gpu,
    architectures=FENCED,
    maps_memory=True,
)
NCCL_FLAT = ReductionMethod(
    "NCCL-flat",
    "all GMIs are ranks of one NCCL communicator, also those of the same GPU (NCCL 2.30)",
    "gmi_drl.comm.groups.nccl:NcclGroup",
    "gmi_drl.comm.reductions.nccl:NcclReduction",
    rendezvous_by="store",
    legs=reduction_costs.flat(NCCL),
    refuses=_is_for_gpus,
)

# Baselines use ways whose speeds are not measured, so no plan takes them.
TORCH = ReductionMethod(
    "torch",
    "torch.distributed's all_reduce, by gloo on cores and NCCL on GPUs: a baseline",
    "gmi_drl.comm.baselines.torch_group:TorchGroup",
    "gmi_drl.comm.baselines.torch_reduction:TorchReduction",
    rendezvous_by="store",
    legs=reduction_costs.flat("torch"),
    refuses=_shares_a_gpu,
)
HOROVOD = ReductionMethod(
    "horovod",
    "Horovod's allreduce, by its gloo in host memory: a baseline",
    "gmi_drl.comm.baselines.horovod_group:HorovodGroup",
    "gmi_drl.comm.reductions.mpr_gloo:GlooReduction",
    rendezvous_by="store",
    legs=reduction_costs.flat("horovod"),
    package="horovod",
)

OWN = (NONE, MPR_SHM, MPR_GLOO, MRR, HAR, SHARD, IPC, NCCL_FLAT, TORCH, HOROVOD)

REDUCTIONS = Registry("reduction", "gmi_drl.reductions", OWN)
"""Third parties add entries of their own by entry points: `NAME = "module:METHOD"`, a `ReductionMethod`."""


def _installed() -> list[ReductionMethod]:
    return [method for method in REDUCTIONS.usable() if not method.missing()]


def refusal(method: ReductionMethod, mapping: MappingList, kind: Kind | None = None, hosts: int = 1) -> str | None:
    """Why these GMIs cannot use a method, with those that they can use; None if they can. None as `kind`: any."""
    if not (why := method.obstacle(mapping, kind, hosts)):
        return None
    others = [other.name for other in _installed() if not other.obstacle(mapping, kind, hosts)]
    return f"reduction {method.name!r} {why}: use {alternatives(others)}"


def usual_reduction(
    mapping: MappingList, architecture: str, kind: Kind = "cpu", *, maps_memory: bool = False
) -> ReductionMethod:
    """The default for GMIs of one host, if no speeds are known.

    On one GPU gradients stay in its memory, if the backend lets GMIs map it (`maps_memory`). Else they are summed in
    shared memory of the host, or by gloo if the processor does not allow that.
    """
    met = list(filter(None, mapping))
    if size_of(met) < 2:
        return NONE
    if maps_memory and IPC.is_for(met, kind, architecture):
        return IPC
    return MPR_SHM if MPR_SHM.runs_on(architecture) else MPR_GLOO


def usual_across_hosts(mapping: MappingList, architecture: str) -> ReductionMethod:
    """The default for GMIs of several hosts.

    Raises:
        NoFeasiblePlanError: if none of our reductions supports the processor.
    """
    if size_of(mapping) < 2:
        return NONE
    require_across_hosts(architecture)
    return HAR


def require_across_hosts(architecture: str) -> None:
    """Raise NoFeasiblePlanError if no reduction over several hosts supports this processor."""
    if not HAR.runs_on(architecture):
        known = ", ".join(HAR.architectures or ())
        raise NoFeasiblePlanError(
            f"GMIs of several hosts sum their gradients on processors of {known} alone, not on {architecture}: "
            "plan for one host (--node)"
        )


def legal_reductions(mapping: MappingList, kind: Kind, architecture: str) -> list[ReductionMethod]:
    """All installed reductions that these GMIs of one host can use, also those of other packages."""
    return [method for method in _installed() if method.is_for(mapping, kind, architecture)]


def by_speed(
    mapping: MappingList, bucket_bytes: float, speeds: Speeds, kind: Kind, architecture: str, hosts: int = 1
) -> list[tuple[float, ReductionMethod]]:
    """Our reductions that can be used, with the predicted seconds of one reduction, fastest first.

    Those with a way of unknown speed are left out. Reductions of other packages are used only if a layout names them.
    """
    legal = [method for method in REDUCTIONS.own if method.is_for(mapping, kind, architecture, hosts)]
    known = [method for method in legal if all(leg.way in speeds for leg in method.legs(mapping))]
    timed = [(method.seconds(mapping, bucket_bytes, speeds), method) for method in known]
    return sorted(timed, key=lambda pair: pair[0])
