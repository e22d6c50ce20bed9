"""Layouts on two cores."""

from typing import TYPE_CHECKING

from gmi_drl.gmi.inventory import this_node

if TYPE_CHECKING:
    from gmi_drl.layout.cut import Cut
    from gmi_drl.layout.layout import Layout
    from gmi_drl.templates import Template


def on_two_cores(template: "Template", cut: "Cut", threads: int | None = None, task: str = "ant") -> "Layout":
    """The layout of two physical cores of this machine by a template, with `threads` of torch in each GMI."""
    from gmi_drl.hardware.node import Cpu, Node
    from gmi_drl.layout.layout import Layout
    from gmi_drl.workload import TASK_SPECS

    cpu = this_node().cpu
    cores = [physical[0] for physical in cpu.physical][:2]
    pair = Node(name="pair", cpu=Cpu(cores=2, memory_gib=cpu.memory_gib, architecture=cpu.architecture))
    plain = template.lay_out(TASK_SPECS[task], pair, cut).model_dump()
    for device in plain["devices"]:
        for gmi in device["gmis"]:
            gmi |= {"threads": threads, "cores": tuple(cores[core] for core in gmi["cores"])}
    return Layout.model_validate(plain)
