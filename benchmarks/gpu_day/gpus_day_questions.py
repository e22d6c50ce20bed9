"""The measurements of `gpus_day.py`: GMIs on several GPUs of one host.

    python gpus_day_questions.py layout FILE TEMPLATE TASK GPUS GMIS:WAY:REDUCTION NUM_ENV  writes a layout
    python gpus_day_questions.py sums GPUS GMIS                                             times of every reduction
    python gpus_day_questions.py speeds TEMPLATE TASK GPUS NUM_ENVS GMIS:WAY:REDUCTION ...  steps per second
    python gpus_day_questions.py apart TASK GPUS NUM_ENV GMIS:WAY ...                       the same of A3C

GMIS:WAY:REDUCTION has the number of GMIs on each GPU, how they share it (`process`, `mps`, `capped mps`), and their
reduction (`-` for the default). NUM_ENV counts the environments of a GPU. Without GPUs a core takes the place of each.
"""

import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import stages
from gpu_question_gmis import REDUCER, every_reduction, figures
from gpu_question_helpers import attempt, folder

from gmi_drl import run_role
from gmi_drl.benchmarks.cases.common.decoupled_run import rates
from gmi_drl.benchmarks.cases.common.shared_gpu import cut_by
from gmi_drl.config.run_config import default_config
from gmi_drl.files import dump_yaml, write_atomically
from gmi_drl.gmi.inventory import this_node, visible_gpus
from gmi_drl.gmi.inventory.cuda_visible_devices import VARIABLE
from gmi_drl.hardware.node import CpuDevices, Node
from gmi_drl.layout.layout import Layout
from gmi_drl.profiler.session import Session
from gmi_drl.profiler.sessions import Sessions
from gmi_drl.templates import template_named
from gmi_drl.workload import TASK_SPECS

USUAL = "-"
PURPOSE = "a day on several GPUs"
MEASURE_S, TRAIN_S = 3.0, 20.0
QUICK_MEASURE_S, QUICK_TRAIN_S = 0.1, 3.0
"""Seconds of measurements in a rehearsal."""


def laid_out(template: str, task: str, gpus: int, side: str, num_env: int = 1) -> Layout:
    """A layout with a number of GMIs on each GPU, and `num_env` environments on each GPU that has simulators.

    Raises:
        ValueError: if the reduction is not legal for them.
    """
    gmis, way, reduction = (*side.split(":"), USUAL)[:3]
    node = node_of(gpus)
    cut = replace(cut_by(way, int(gmis), max(1, num_env // int(gmis))), share_cores=not node.num_gpus)
    whole = template_named(template).lay_out(TASK_SPECS[task], node, cut)
    if reduction == USUAL:
        return whole
    groups = {name: group.model_copy(update={"reduction": reduction}) for name, group in whole.groups.items()}
    return Layout.model_validate(whole.model_copy(update={"groups": groups}).model_dump())


def node_of(gpus: int) -> Node:
    """This machine with only its first GPUs, or with cores in their place if it has none."""
    if visible := visible_gpus():
        os.environ[VARIABLE] = ",".join(gpu.uuid for gpu in visible[:gpus])
        return this_node()
    return this_node().model_copy(update={"cpus": CpuDevices(cores_each=1, count=gpus)})


def layout(file: str, template: str, task: str, gpus: str, side: str, num_env: str) -> None:
    """Write a layout file for `gmi-drl train`."""
    write_atomically(Path(file), dump_yaml(laid_out(template, task, int(gpus), side, int(num_env))))


def sums(gpus: str, gmis: str) -> bool:
    """Print microseconds of a sum by reduction and number of float32 parameters, as rank 0 measures them."""
    whole, groups = every_reduction(laid_out("TCG_EX", "ant", int(gpus), f"{gmis}:process"))

    def one(method: str) -> dict[str, Any]:
        run = folder("run-")
        own = {name: group for name, group in whole.groups.items() if name in groups[method]}
        part = whole.model_copy(update={"groups": own})
        run_role(f"{REDUCER}:Reducer", part, {"groups": {method: groups[method]}}, run_dir=run, hang_s=60)
        return stages.facts((run / "logs" / "gmi-0.log").read_text(errors="replace"))[0]

    return any([attempt(f"{gpus} x {gmis} {method}", partial(one, method)) for method in groups])


def speeds(template: str, task: str, gpus: str, num_envs: str, *sides: str) -> bool:
    """Print steps per second of all GMIs, for each way and number of environments of a GPU."""

    def one(side: str) -> dict[str, Any]:
        session = Session(laid_out(template, task, int(gpus), side), default_config(TASK_SPECS[task]))
        gmis, told = int(side.split(":")[0]), dict[str, Any]()
        with Sessions({side: session}, PURPOSE) as sessions:
            for num_env in num_envs.split(","):
                measured = sessions[side].measure(max(1, int(num_env) // gmis), _seconds(MEASURE_S, QUICK_MEASURE_S))
                told[num_env] = figures(measured)
        return told

    return _each(sides, one)


def apart(task: str, gpus: str, num_env: str, *sides: str) -> bool:
    """Print the steps per second of agents and of trainers on GMIs of their own."""

    def one(side: str) -> dict[str, Any]:
        found = laid_out("decoupled", task, int(gpus), side, int(num_env))
        sample = rates(found, default_config(TASK_SPECS[task], "a3c"), _seconds(TRAIN_S, QUICK_TRAIN_S), 1.0)
        return {"steps_per_second": round(sample.value), **sample.details}

    return _each(sides, one)


def _each(sides: Sequence[str], one: Callable[[str], dict[str, Any]]) -> bool:
    """Whether at least one runs: others may be too much for this machine."""
    return any([attempt(side, partial(one, side)) for side in sides])


def _seconds(usual: float, quick: float) -> float:
    return quick if stages.REHEARSAL in os.environ else usual


if __name__ == "__main__":
    ask, *words = sys.argv[1:]
    sys.exit({"layout": layout, "sums": sums, "speeds": speeds, "apart": apart}[ask](*words) is False)
