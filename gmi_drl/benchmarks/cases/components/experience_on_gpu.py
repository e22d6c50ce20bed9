"""Agents and a trainer on one GPU: experience that stays on it (CUDA IPC), against experience through the host."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

from gmi_drl.benchmarks.case import Case, Sides
from gmi_drl.benchmarks.cases.common import requirements
from gmi_drl.benchmarks.cases.common.decoupled_run import QUICK_WARM_UP_S, WARM_UP_S, rates
from gmi_drl.benchmarks.cases.common.shared_gpu import LABELS, MPS, PLAIN, most_gmis, shared, those_that_run, ways

if TYPE_CHECKING:
    from gmi_drl.hardware.node import Node
    from gmi_drl.layout.layout import Layout

TASK = "anymal"
GMIS = 4  # at most, the trainer included
NUM_ENV, QUICK_NUM_ENV = 2048, 16
SECONDS, QUICK_SECONDS = 12.0, 1.0


def layouts(node: "Node", num_env: int) -> "Mapping[str, Layout]":
    """Both sides, with `num_env` environments of each agent, under MPS if it is available."""
    from gmi_drl.layout.channels import Channels
    from gmi_drl.templates import Decoupled

    gmis, way = min(GMIS, most_gmis(node)), MPS if MPS in ways() else PLAIN
    made = {}
    for name, on_gpu in (("on the GPU", True), ("through the host", False)):
        template = Decoupled(channels=Channels(on_gpu=on_gpu))
        made[f"{name}, {LABELS[way]}"] = shared(TASK, node, template, gmis, way, num_env)
    return made


@contextmanager
def open_sides(quick: bool) -> Iterator[Sides]:
    """Two trainings that differ only in the path of experience."""
    from gmi_drl.config.run_config import default_config
    from gmi_drl.gmi.inventory import this_node
    from gmi_drl.workload import TASK_SPECS

    num_env, seconds = (QUICK_NUM_ENV, QUICK_SECONDS) if quick else (NUM_ENV, SECONDS)
    config, warm_up_s = default_config(TASK_SPECS[TASK], "a3c"), QUICK_WARM_UP_S if quick else WARM_UP_S
    sides = {
        name: partial(rates, layout, config, seconds, warm_up_s)
        for name, layout in layouts(this_node(), num_env).items()
    }
    with those_that_run(sides) as running:
        yield running


CASE = Case(
    name="experience_on_gpu",
    claim=f"Training {TASK} by A3C on one GPU, three agents of {NUM_ENV} environments and a trainer: agents write into "
    "the trainer's memory on the GPU (CUDA IPC), against the same through memory of the host.",
    unit="steps/s",
    open=open_sides,
    obstacle=requirements.warp_on_gpu,
    reference="The paper has no figure for it: within a GPU its migrator forwards",
    limits="With physics by MuJoCo Warp, and under MPS if it is available. Parameters go through the host either way.",
    repeats=5,
)
