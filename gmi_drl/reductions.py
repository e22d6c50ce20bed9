"""The ways to sum gradients over a group of GMIs (paper section 4.1): what each needs and costs, where its code is."""

from dataclasses import dataclass
from typing import Literal

from gmi_drl.hardware import STORES_IN_ORDER
from gmi_drl.registry import Registry


@dataclass(frozen=True)
class ReductionMethod:
    """A way, as layouts name it.

    Args:
        name: E.g. "MPR-shm".
        how: In words, for the reasons of a plan.
        group: `module:class` of the `comm.group.Group` that its ranks form.
        reduction: `module:class` of the `comm.reduction.Reduction` over that group.
        meets_in: What the launcher gives the ranks to meet in: a segment of shared memory, or a path of their own.
        bytes_per_second: The paper's BW between GMIs of cores, measured on two of one host
            (`gmi-drl bench reduction_1536k`).
        gpu_bytes_per_second: The same between GMIs of GPUs; None where nobody has measured it.
        most: Ranks that a group may have; None for any number.
        architectures: Processors on which it is right, as `uname -m` says; None for all.
    """

    name: str
    how: str
    group: str
    reduction: str
    meets_in: Literal["segment", "path", "nothing"]
    bytes_per_second: float
    gpu_bytes_per_second: float | None = None
    most: int | None = None
    architectures: tuple[str, ...] | None = None

    def obstacle(self, size: int, architecture: str | None = None) -> str | None:
        """Why a group of so many ranks cannot use it; None if it can. Without an architecture that is not asked."""
        if self.most is not None and size > self.most:
            remedy = " or ".join(_others(self.name))
            return f"reduction {self.name!r} is for groups of {self.most}, not {size}: use {remedy}"
        if architecture and self.architectures and architecture not in self.architectures:
            return f"{self.name} needs a processor of {', '.join(self.architectures)}, this is {architecture}"
        return None

    def moved_bytes(self, size: int, bucket_bytes: int) -> float:
        """What crosses between GMIs to reduce once: 2 (n - 1) M_p / n (Table 5)."""
        return 2 * (size - 1) / size * bucket_bytes

    def bandwidth(self, *, on_gpu: bool) -> float:
        """BW in bytes per second; on a GPU that of cores stands in for one that is unmeasured."""
        return (on_gpu and self.gpu_bytes_per_second) or self.bytes_per_second

    def seconds(self, size: int, bucket_bytes: int, *, on_gpu: bool = False) -> float:
        """COM / BW of reducing once."""
        return self.moved_bytes(size, bucket_bytes) / self.bandwidth(on_gpu=on_gpu)


NONE = ReductionMethod(
    "none",
    "nothing to sum",
    "gmi_drl.comm.alone:Alone",
    "gmi_drl.comm.alone:Solo",
    meets_in="nothing",
    bytes_per_second=float("inf"),
    gpu_bytes_per_second=float("inf"),
    most=1,
)
MPR_SHM = ReductionMethod(
    "MPR-shm",
    "gradients meet in host memory (multi-process reduction, paper section 4.1)",
    "gmi_drl.comm.shared_memory:SharedMemoryGroup",
    "gmi_drl.comm.mpr_shm:SharedMemoryReduction",
    meets_in="segment",
    bytes_per_second=8e9,
    architectures=STORES_IN_ORDER,
)
MPR_GLOO = ReductionMethod(
    "MPR-gloo",
    "gradients meet in host memory (multi-process reduction, paper section 4.1)",
    "gmi_drl.comm.gloo:GlooGroup",
    "gmi_drl.comm.mpr_gloo:GlooReduction",
    meets_in="path",
    bytes_per_second=9e8,
)

REDUCTIONS = Registry("reduction", "gmi_drl.reductions", (NONE, MPR_SHM, MPR_GLOO))
"""Third parties add entries of their own by entry points: `NAME = "module:METHOD"`, a `ReductionMethod`."""


def usual_reduction(size: int, architecture: str) -> ReductionMethod:
    """The one for so many GMIs of one host: shared memory where the processor allows it."""
    usual = (method for method in (NONE, MPR_SHM, MPR_GLOO) if method.obstacle(size, architecture) is None)
    return next(usual)


def _others(name: str) -> list[str]:
    return [other for other in REDUCTIONS.names if other not in (name, NONE.name)]
