"""Exports of a layout as files of other tools: MIG managers, clusters, shells. Pure data in, text out.

Each format is a module with one function. A layout that a tool's file cannot express is refused with the numbers and
the remedy. None of the files has been tried on a GPU yet.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from gmi_drl.errors import UsageError
from gmi_drl.registry import class_at
from gmi_drl.units import alternatives

if TYPE_CHECKING:
    from gmi_drl.hardware.node import Node
    from gmi_drl.layout.cut_gpus import There
    from gmi_drl.layout.layout import Layout


@dataclass(frozen=True)
class Format:
    """A file format.

    Args:
        name: The name for `plan --format`.
        says: The content of the file, in words.
        writer: `module:function` with the arguments `(layout, node, there)`, which returns the text.
        backends: The backends whose layouts it can express.
        cores: Whether it can express GMIs on cores, without a GPU.
    """

    name: str
    says: str
    writer: str
    backends: tuple[str, ...]
    cores: bool = False


FORMATS = {
    each.name: each
    for each in (
        Format(
            "mig-parted",
            "the MIG instances of a node",
            "gmi_drl.layout.export.mig_parted:mig_parted",
            ("mig", "mig-ci"),
        ),
        Format(
            "kubernetes",
            "how NVIDIA's device plugin shares GPUs",
            "gmi_drl.layout.export.kubernetes:kubernetes",
            ("process", "mps", "mig"),
        ),
        Format(
            "slurm",
            "what a job asks for",
            "gmi_drl.layout.export.slurm:slurm",
            ("process", "mps", "mig", "mig-ci"),
            cores=True,
        ),
        Format(
            "nvidia-smi",
            "commands that make MIG instances",
            "gmi_drl.layout.export.nvidia_smi:nvidia_smi",
            ("mig", "mig-ci"),
        ),
        Format(
            "env",
            "the environment of each GMI",
            "gmi_drl.layout.export.env:env",
            ("process", "mps", "mig", "mig-ci"),
            cores=True,
        ),
    )
}
"""The formats by name."""


def require_sayable(name: str, backend: str | None, on_gpus: bool) -> None:
    """Refuse, before anything is measured, a layout that a format cannot express.

    Args:
        name: The name of the format.
        backend: The backend that cuts the devices; None if not known yet.
        on_gpus: Whether the devices are GPUs.

    Raises:
        UsageError: with the formats that can.
    """
    wanted = FORMATS[name]
    if not on_gpus and not wanted.cores:
        able = alternatives([each.name for each in FORMATS.values() if each.cores])
        raise UsageError(f"--format {name} tells {wanted.says}, and this layout is on cores: take {able}")
    if backend is not None and backend not in wanted.backends:
        others = [each.name for each in FORMATS.values() if backend in each.backends and (on_gpus or each.cores)]
        instead = f", or take --format {alternatives(others)}" if others else ""
        said = alternatives([f"--backend {each}" for each in wanted.backends])
        raise UsageError(f"--format {name} cannot say what backend {backend!r} does: plan with {said}{instead}")


def export(name: str, layout: "Layout", node: "Node", there: "There" = ()) -> str:
    """The text of a layout in a format.

    Args:
        name: The name of the format, one of `FORMATS`.
        layout: The layout.
        node: The machine that it is for, with the models of its GPUs.
        there: Its GPUs with UUIDs, if that machine is this one, so that tools take exactly these.

    Raises:
        UsageError: if the format cannot express the layout, or the layout is not for this node.
    """
    for kind in sorted({device.kind for device in layout.devices}):
        require_sayable(name, layout.backend, on_gpus=kind == "gpu")
    text: str = class_at(FORMATS[name].writer)(layout, node, there)
    return text
