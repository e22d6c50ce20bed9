"""The signature of the machine that a layout was planned for, and its comparison with another machine."""

from collections import Counter
from collections.abc import Mapping
from typing import Annotated

from pydantic import Field

from gmi_drl.files import FileModel
from gmi_drl.hardware.gpus import find_gpu
from gmi_drl.hardware.node import Node
from gmi_drl.units import counted

NODE_NAME = r"[A-Za-z0-9_.-]+"
"""Names of the machines of a layout."""


class MachineSignature(FileModel):
    """A machine, as a layout remembers it."""

    name: str
    """Its name."""

    gpus: dict[str, Annotated[int, Field(ge=1)]] = Field(default_factory=dict)
    """Numbers of GPUs by model: `{A100-SXM4-40GB: 8}`."""

    cores: Annotated[int, Field(ge=1)]
    """Usable cores."""


def signature_of(node: Node) -> MachineSignature:
    """The signature of a node."""
    gpus: Counter[str] = Counter()
    for part in node.gpu_models:
        gpus[part.model] += part.count
    return MachineSignature(name=node.name, gpus=dict(gpus), cores=node.cpu.cores)


def differences(planned: MachineSignature, here: MachineSignature) -> str | None:
    """A line with the differences of another machine; None if there are none. Names may differ.

    The order of GPU models counts, since each may have been cut in its own way.
    """
    parts = []
    if list(_models(planned.gpus).items()) != list(_models(here.gpus).items()):
        parts.append(f"{_text(planned.gpus)}, here {_text(here.gpus)}")
    if planned.cores != here.cores:
        parts.append(f"{counted(planned.cores, 'core')}, here {here.cores}")
    return f"was made for {planned.name} with {'; '.join(parts)}" if parts else None


def _models(gpus: Mapping[str, int]) -> Counter[str]:
    """The counts by names of the catalogue, since a model has several names."""
    known: Counter[str] = Counter()
    for model, count in gpus.items():
        gpu = find_gpu(model)
        known[gpu.name if gpu else model] += count
    return known


def _text(gpus: Mapping[str, int]) -> str:
    return " and ".join(f"{count} x {model}" for model, count in gpus.items()) or "no GPU"
