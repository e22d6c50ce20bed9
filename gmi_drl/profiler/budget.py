"""How many seconds measuring may take, and how many are expected."""

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
from gmi_drl.profiler.session import Measured, Session
from gmi_drl.workload import TaskSpec

COMPILING = "starting the first GMI: kernels may be compiled now, once per machine, outside of the budget"


START_S = 6.0
"""That a process takes to import torch, until one has been started."""


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


@dataclass
class Pace:
    """What measuring takes on one kind of device. It learns from every point.

    Args:
        measure_s: Of iterations at each point, one at least.
        walk_s: That a useful walk over the numbers of environments takes, with its start.
        beside_s: That a point takes beside these and one iteration of the warm-up: its worlds, its graphs and the rest
            of the warm-up.
        start_s: That a process takes until it is ready, kernels apart.
    """

    measure_s: float
    walk_s: float
    beside_s: float = 0.0
    start_s: float = START_S

    def has_run(self, took_s: float, measured: Measured) -> None:
        """Learn from a point."""
        self.beside_s = max(0.0, took_s - (measured.iterations + 1) * measured.iteration_s)

    def expected_s(self, iteration_s: float = 0.0) -> float:
        """What a point will take in a process that has started; without an iteration's time, one that is quick."""
        return self.beside_s + max(iteration_s, self.measure_s) + (iteration_s or self.measure_s)

    @property
    def first_s(self) -> float:
        """What a first point will take, with its start."""
        return self.start_s + self.expected_s()

    def share(self, left_s: float, walks: int) -> float:
        """The part of what is left that the next of so many walks gets.

        As many as can be useful get the same; what is left over then is for the others, which may well get nothing.
        """
        return 1 / int(max(1.0, min(walks, left_s / self.walk_s)))
