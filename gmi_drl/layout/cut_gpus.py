"""What the formats ask of a layout: its GPUs with their models, and GPUs that are cut alike."""

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
    """A GPU of a machine that is there: its UUID, and NVML's number of it, among all GPUs."""

    uuid: str
    number: int


There = Sequence[Known]
"""The GPUs of a node, by index; empty where it is described only."""


@dataclass(frozen=True)
class CutGpu:
    """A GPU of a layout.

    Args:
        index: Within the layout.
        model: As the node file has it, or NVML.
        gmis: What it is cut into.
        number: NVML's, by which tools count all GPUs, whatever CUDA_VISIBLE_DEVICES hides.
        uuid: Empty where the machine is described only.
    """

    index: int
    model: str
    gmis: tuple[GMI, ...]
    number: int = 0
    uuid: str = ""

    @property
    def name(self) -> str:
        """What nvidia-smi and CUDA_VISIBLE_DEVICES may call it: its UUID, or its number."""
        return self.uuid or str(self.number)

    @property
    def catalogued(self) -> Gpu:
        """What is known of the model.

        Raises:
            UsageError: if it is not in the catalogue.
        """
        return gpu_named(self.model)

    def part(self, gmi: GMI) -> float:
        """The part of it that a tool gives a GMI which gives only parts: what the layout says, or an equal one."""
        return gmi.share or 1 / len(self.gmis)


def gpus_of(layout: Layout, node: Node, there: There = ()) -> list[CutGpu]:
    """The GPUs of a layout, by index. A node file counts all that its machine has.

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
    """Things by what they have in common, in the order in which it first comes."""
    groups: dict[Key, list[Thing]] = {}
    for thing in things:
        groups.setdefault(key(thing), []).append(thing)
    return groups


def commented(lines: Sequence[str]) -> str:
    """Lines of a comment, as YAML, shells and environment files have them."""
    return "".join(f"# {line}".rstrip() + "\n" for line in lines)


INDICES = "GPU numbers are nvidia-smi's; a node file is taken to count GPUs in that order."
"""What every format that names a GPU by its number says."""
