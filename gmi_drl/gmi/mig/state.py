"""What a GPU is cut into by MIG, as pure data: that which is there, and that which is wanted.

Terms: NVIDIA Multi-Instance GPU User Guide, "Concepts". A GPU instance has memory slices of its own; compute instances
divide its SMs. CUDA addresses compute instances (MIG devices), each by its UUID.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Self

from gmi_drl.hardware.gpus import find_gpu
from gmi_drl.hardware.mig_profiles import MigProfile

Part = tuple[str, int]
"""A compute instance as it is wanted: the name of its profile, and its first compute slice."""


@dataclass(frozen=True)
class Shape:
    """A GPU instance as it is wanted, with the compute instances in it; `start` is its first memory slice."""

    profile: str
    start: int
    compute: tuple[Part, ...]

    @property
    def place(self) -> tuple[str, int]:
        """Its profile and its first memory slice."""
        return self.profile, self.start


@dataclass(frozen=True)
class ComputeInstance:
    """A compute instance that is there: a MIG device.

    Args:
        id: Within its GPU instance.
        profile: E.g. "1c.3g.20gb"; that of the GPU instance if it has all of its SMs.
        start: Its first compute slice.
        uuid: `MIG-...`, what CUDA_VISIBLE_DEVICES takes; empty if this process may not open it.
    """

    id: int
    profile: str
    start: int
    uuid: str


@dataclass(frozen=True)
class GpuInstance:
    """A GPU instance that is there, on `size` memory slices from `start` on."""

    id: int
    profile: str
    start: int
    size: int
    compute: tuple[ComputeInstance, ...]

    @property
    def place(self) -> tuple[str, int]:
        """Its profile and its first memory slice."""
        return self.profile, self.start

    @property
    def shape(self) -> Shape:
        """What it is, whatever its numbers are."""
        return Shape(*self.place, tuple((part.profile, part.start) for part in self.compute))

    @property
    def slices(self) -> range:
        """Its memory slices."""
        return range(self.start, self.start + self.size)

    @property
    def uuids(self) -> frozenset[str]:
        """Of its MIG devices."""
        return frozenset(part.uuid for part in self.compute)


@dataclass(frozen=True)
class MigState:
    """How MIG stands on one GPU.

    Args:
        gpu: Its UUID.
        model: NVML's name of it.
        enabled: Whether MIG mode is on.
        pending: The mode after the next reset: the same unless one is waited for.
        instances: By where they begin.
    """

    gpu: str
    model: str
    enabled: bool
    pending: bool
    instances: tuple[GpuInstance, ...] = ()

    @property
    def profiles(self) -> tuple[MigProfile, ...]:
        """What it may be cut into, by the catalogue; empty where that has no MIG for it."""
        model = find_gpu(self.model)
        return model.mig if model else ()

    @property
    def shapes(self) -> tuple[Shape, ...]:
        """Of its instances."""
        return tuple(sorted((instance.shape for instance in self.instances), key=lambda shape: shape.start))

    def to_json(self) -> dict[str, Any]:
        """For a record of it."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """What `to_json` has made. Raises KeyError or TypeError for anything else."""
        instances = tuple(
            GpuInstance(**{**instance, "compute": tuple(ComputeInstance(**part) for part in instance["compute"])})
            for instance in data["instances"]
        )
        return cls(**{**data, "instances": instances})
