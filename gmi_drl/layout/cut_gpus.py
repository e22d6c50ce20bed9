"""The GPUs of a layout with their models, for exports: also grouped by equal cuts."""

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

from gmi_drl.errors import UsageError
from gmi_drl.hardware.gpus import Gpu, gpu_named
from gmi_drl.hardware.node import Node
from gmi_drl.layout.layout import GMI, Layout
from gmi_drl.units import counted

Thing = TypeVar("Thing")
Key = TypeVar("Key", bound=Hashable)


class Known(NamedTuple):
    """A GPU of an existing machine: its UUID, and its NVML index among all GPUs."""

    uuid: str
    number: int


There = Sequence[Known]
"""The GPUs of a node, by index; empty for a node that is only described."""


@dataclass(frozen=True)
class CutGpu:
    """A GPU of a layout.

    Args:
        index: The index in the layout.
        model: The name in the node file, or that of NVML.
        gmis: The GMIs that it is cut into.
        number: The NVML index, which counts all GPUs, also those hidden by CUDA_VISIBLE_DEVICES.
        uuid: The UUID; empty for a machine that is only described.
    """

    index: int
    model: str
    gmis: tuple[GMI, ...]
    number: int = 0
    uuid: str = ""

    @property
    def name(self) -> str:
        """Its name for nvidia-smi and CUDA_VISIBLE_DEVICES: the UUID, or the number."""
        return self.uuid or str(self.number)

    @property
    def catalogued(self) -> Gpu:
        """The catalogue's entry of the model.

        Raises:
            UsageError: if it is not in the catalogue.
        """
        return gpu_named(self.model)

    def part(self, gmi: GMI) -> float:
        """The part of the GPU for a GMI, for tools that know only parts: its `share`, or an equal part."""
        return gmi.share or 1 / len(self.gmis)


def gpus_of(layout: Layout, node: Node, there: There = ()) -> list[CutGpu]:
    """The GPUs of a layout, by index. The node must have all GPUs of its machine.

    Raises:
        UsageError: if the node has fewer.
    """
    models = node.model_of_each_gpu
    devices = sorted((device.index, device.gmis) for device in layout.devices if device.kind == "gpu")
    if devices and devices[-1][0] >= len(models):
        raise UsageError(
            f"the layout uses GPU {devices[-1][0]}, {node.name} has {counted(len(models), 'GPU')}: "
            "give the --node that it is for"
        )
    known = there or [Known("", index) for index in range(len(models))]
    return [CutGpu(i, models[i], gmis, known[i].number, known[i].uuid) for i, gmis in devices]


def alike(things: Iterable[Thing], key: Callable[[Thing], Key]) -> dict[Key, list[Thing]]:
    """Group things by key, in the order of first occurrence."""
    groups: dict[Key, list[Thing]] = {}
    for thing in things:
        groups.setdefault(key(thing), []).append(thing)
    return groups


def commented(lines: Sequence[str]) -> str:
    """The lines as `#` comments, for YAML, shells and environment files."""
    return "".join(f"# {line}".rstrip() + "\n" for line in lines)


INDICES = "GPU numbers are nvidia-smi's; a node file is taken to count GPUs in that order."
"""The remark of every format that names GPUs by number."""
