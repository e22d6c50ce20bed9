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
        over_nodes: `module:function` with the argument `layout` for layouts over several machines; None if it cannot.
    """

    name: str
    says: str
    writer: str
    backends: tuple[str, ...]
    cores: bool = False
    over_nodes: str | None = None


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
            over_nodes="gmi_drl.layout.export.workers:kubernetes_over_nodes",
        ),
        Format(
            "slurm",
            "what a job asks for",
            "gmi_drl.layout.export.slurm:slurm",
            ("process", "mps", "mig", "mig-ci"),
            cores=True,
            over_nodes="gmi_drl.layout.export.workers:slurm_over_nodes",
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


def require_over_nodes(name: str) -> None:
    """Refuse layouts over several machines for a format that cannot express them.

    Raises:
        UsageError: with the formats that can.
    """
    if FORMATS[name].over_nodes is None:
        able = alternatives([each.name for each in FORMATS.values() if each.over_nodes])
        raise UsageError(
            f"--format {name} tells {FORMATS[name].says} of one machine: leave --cluster out, or take {able}"
        )


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
    if layout.nodes != (None,):
        require_over_nodes(name)
        over: str = class_at(FORMATS[name].over_nodes or "")(layout)
        return over
    require_sayable(name, layout.backend, on_gpus=any(device.kind == "gpu" for device in layout.devices))
    text: str = class_at(FORMATS[name].writer)(layout, node, there)
    return text
