"""Synchronous PPO on Ant over two unlike devices: cut in the same way, so that one waits, or each in its own way."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import count
from typing import TYPE_CHECKING

from gmi_drl.benchmarks.case import Case, Sides
from gmi_drl.benchmarks.cases.common import requirements
from gmi_drl.benchmarks.cases.common.sessions import of_layouts, training_side
from gmi_drl.gmi.inventory import this_node

if TYPE_CHECKING:
    from gmi_drl.layout.layout import Layout

OURS = "1 GMI and 3 GMIs, 256 environments each"
MORE_ENVS = "1 GMI of each device, 256 and 768 environments, 1 thread"
EVEN = "1 GMI of each device, 512 environments each, 1 thread"
EVEN_THREADS = "the same with 3 threads on the 3 cores"
CORES = (1, 3)  # of the two devices

SECONDS, QUICK_SECONDS = 6.0, 0.5


def layouts() -> "Mapping[str, Layout]":
    """Layouts of a device of one core and one of three, with 1024 environments in all.

    The physics uses all cores of a GMI.
    """
    return {
        OURS: layout_of([256], [256] * 3),
        MORE_ENVS: layout_of([256], [768], threads=1),
        EVEN: layout_of([512], [512], threads=1),
        EVEN_THREADS: layout_of([512], [512]),
    }


def layout_of(*devices: Sequence[int], threads: int | None = None) -> "Layout":
    """A layout from the numbers of environments of each device's GMIs, which share the device's cores evenly.

    Each GMI has `threads` threads of torch.
    """
    from gmi_drl.layout.layout import GMI, Device, Layout
    from gmi_drl.templates import TCG_EX

    node, ids, made = this_node().model_copy(update={"gpus": None}), count(), []
    free = iter([physical[0] for physical in node.cpu.physical])  # not two threads of one core
    for index, (cores, num_envs) in enumerate(zip(CORES, devices, strict=True)):
        owns = [tuple(next(free) for _ in range(cores // len(num_envs))) for _ in num_envs]
        gmis = [
            GMI(id=next(ids), num_env=num_env, cores=own, threads=threads)
            for num_env, own in zip(num_envs, owns, strict=True)
        ]
        made.append(Device(kind="cpu", index=index, gmis=tuple(gmis)))
    mapping = [[gmi.id for gmi in device.gmis] for device in made]
    groups = TCG_EX.groups(mapping, node)
    return Layout(task="ant", template=TCG_EX.name, devices=tuple(made), groups=groups)


@contextmanager
def open_sides(quick: bool) -> Iterator[Sides]:
    """All layouts, which live at the same time and work one at a time."""
    from gmi_drl.config.run_config import default_config
    from gmi_drl.workload import TASK_SPECS

    sides, seconds = layouts(), QUICK_SECONDS if quick else SECONDS
    with of_layouts(sides, default_config(TASK_SPECS["ant"])) as sessions:
        yield {name: training_side(sessions, name, None, seconds) for name in sides}


CASE = Case(
    name="uneven",
    claim="Training Ant by PPO with 1024 environments in all on two unlike devices, one core and three: each cut in "
    "its own way, against both cut in the same way, so that the larger waits for the smaller, also with the best "
    "number of threads.",
    unit="steps/s",
    open=open_sides,
    obstacle=lambda: requirements.simulation_on_cores(sum(CORES)),
    limits="The devices are cores of one CPU and differ only in their number; unlike GPUs have not been measured. "
    "Sides that leave cores idle lose least if other processes run.",
    repeats=7,
)
