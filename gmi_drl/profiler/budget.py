"""Seconds that may be spent on measuring."""

import time
from collections.abc import Callable
from copy import copy
from dataclasses import dataclass

from gmi_drl.config.physics import usual_physics
from gmi_drl.config.run_config import RunConfig
from gmi_drl.config.task_names import ForeignTask, find_task
from gmi_drl.config.task_settings import missing_warp
from gmi_drl.gmi import Claim
from gmi_drl.hardware.node import Node
from gmi_drl.profiler.session import Session
from gmi_drl.workload import TaskSpec

COMPILING = "starting the first GMI: kernels may be compiled now, once per machine, outside of the budget"


class Budget:
    """Counts down from its making, but for what the first GMI compiles, and so do its parts.

    In their first calls simulators compile their kernels, for minutes, and never again on this machine: what is bought
    with a budget must not depend on that.

    Args:
        seconds: In all; infinity for as long as it takes.
        on_first_start: Called before a first session is started.
    """

    def __init__(self, seconds: float, on_first_start: Callable[[], None] = lambda: None) -> None:
        self._end = time.monotonic() + seconds
        self._first = _First(on_first_start)

    @property
    def left_s(self) -> float:
        """Seconds that are left, never below 0."""
        return max(0.0, self._end + self._first.compiled_s - time.monotonic())

    def part(self, fraction: float) -> "Budget":
        """A budget with a part of what is left."""
        part = copy(self)  # of both, and of other parts, one first start is spared
        part._end = time.monotonic() - self._first.compiled_s + fraction * self.left_s
        return part

    def start(self, session: Session, claim: Claim) -> float:
        """Start a session. Returns how long it took, but for what a first one compiled.

        Raises:
            GmiError: see `Session.start`.
        """
        if self._first.is_to_come:
            self._first.on_start()
        started = time.monotonic()
        session.start(claim)
        spared_s = session.compiled_s if self._first.is_to_come else 0.0
        self._first.compiled_s += spared_s
        self._first.is_to_come = False
        return time.monotonic() - started - spared_s


@dataclass
class _First:
    """The first start of a budget and all its parts."""

    on_start: Callable[[], None]
    is_to_come: bool = True
    compiled_s: float = 0.0


def budget_of(
    seconds: float, task: TaskSpec, config: RunConfig, node: Node, tell: Callable[[str], None] = lambda line: None
) -> Budget:
    """A budget for measuring a workload.

    It tells in a line that MuJoCo Warp is missing on a node with GPUs, and when kernels may be compiled outside of it.
    """
    found, on_gpu = find_task(task.name), node.num_gpus > 0
    if told := missing_warp(found, on_gpu=on_gpu, physics=config.physics):
        tell(told)
    ours = not isinstance(found, ForeignTask)
    compiles_nothing = ours and (config.physics or usual_physics(on_gpu)) == "native"
    return Budget(seconds, (lambda: None) if compiles_nothing else (lambda: tell(COMPILING)))
