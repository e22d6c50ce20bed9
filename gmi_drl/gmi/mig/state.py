"""The MIG instances of a GPU as pure data: those that exist, and those that are wanted.

Terms: NVIDIA Multi-Instance GPU User Guide, "Concepts". A GPU instance has memory slices of its own; compute instances
divide its SMs. CUDA addresses compute instances (MIG devices), each by its UUID.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Self

from gmi_drl.hardware.gpus import find_gpu
from gmi_drl.hardware.mig_profiles import MigProfile

Part = tuple[str, int]
"""A wanted compute instance: the name of its profile, and its first compute slice."""


@dataclass(frozen=True)
class Shape:
    """A wanted GPU instance with its compute instances. `start` is its first memory slice."""

    profile: str
    start: int
    compute: tuple[Part, ...]

    @property
    def place(self) -> tuple[str, int]:
        """The profile and the first memory slice."""
        return self.profile, self.start


@dataclass(frozen=True)
class ComputeInstance:
    """An existing compute instance: a MIG device.

    Args:
        id: Its id within the GPU instance.
        profile: E.g. "1c.3g.20gb"; the GPU instance's profile if it has all of its SMs.
        start: Its first compute slice.
        uuid: `MIG-...`, its name in CUDA_VISIBLE_DEVICES; empty if this process may not open it.
    """

    id: int
    profile: str
    start: int
    uuid: str


@dataclass(frozen=True)
class GpuInstance:
    """An existing GPU instance on `size` memory slices, the first of which is `start`."""

    id: int
    profile: str
    start: int
    size: int
    compute: tuple[ComputeInstance, ...]

    @property
    def place(self) -> tuple[str, int]:
        """The profile and the first memory slice."""
        return self.profile, self.start

    @property
    def shape(self) -> Shape:
        """The instance without its ids and UUIDs."""
        return Shape(*self.place, tuple((part.profile, part.start) for part in self.compute))

    @property
    def slices(self) -> range:
        """The numbers of its memory slices."""
        return range(self.start, self.start + self.size)

    @property
    def uuids(self) -> frozenset[str]:
        """The UUIDs of its MIG devices."""
        return frozenset(part.uuid for part in self.compute)


@dataclass(frozen=True)
class MigState:
    """The MIG mode and instances of one GPU.

    Args:
        gpu: The GPU's UUID.
        model: NVML's name of the GPU.
        enabled: Whether MIG mode is on.
        pending: The mode after the next reset; unlike `enabled` only if a change waits for a reset.
        instances: In the order of their starts.
    """

    gpu: str
    model: str
    enabled: bool
    pending: bool
    instances: tuple[GpuInstance, ...] = ()

    @property
    def profiles(self) -> tuple[MigProfile, ...]:
        """The MIG profiles of this model in the catalogue; empty if it has none."""
        model = find_gpu(self.model)
        return model.mig if model else ()

    @property
    def shapes(self) -> tuple[Shape, ...]:
        """The shapes of the instances, in the order of their starts."""
        return tuple(sorted((instance.shape for instance in self.instances), key=lambda shape: shape.start))

    def to_json(self) -> dict[str, Any]:
        """As JSON data, for a record."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """Read data of `to_json`. Raises KeyError or TypeError if it is anything else."""
        instances = tuple(
            GpuInstance(**{**instance, "compute": tuple(ComputeInstance(**part) for part in instance["compute"])})
            for instance in data["instances"]
        )
        return cls(**{**data, "instances": instances})
