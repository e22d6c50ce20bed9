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


START_S, GPU_START_S = 6.0, 13.0
"""Seconds that a process is expected to take to import torch, on a GPU with CUDA and Warp, until one has started."""


class Budget:
    """Seconds for measuring, which count down from now on. What the first GMI compiles is not counted.

    In their first calls simulators may compile kernels for minutes, and never again on this machine. How much a budget
    can measure must not depend on that.

    Args:
        seconds: In all; infinity for no limit.
        on_first_start: Called before the first session is started, of this budget or of one of its parts.
    """

    def __init__(self, seconds: float, on_first_start: Callable[[], None] = lambda: None) -> None:
        self._end = time.monotonic() + seconds
        self._first = _First(on_first_start)

    @property
    def left_s(self) -> float:
        """Seconds left, at least 0."""
        return max(0.0, self._end + self._first.compiled_s - time.monotonic())

    def part(self, fraction: float) -> "Budget":
        """A budget with this fraction of the seconds left, which counts down beside this one."""
        part = copy(self)  # with the same `_First`: in the budget and its parts only one start is the first
        part._end = time.monotonic() - self._first.compiled_s + fraction * self.left_s
        return part

    def start(self, session: Session, claim: Claim) -> float:
        """Start a session. Returns the seconds it took, without the compilation of a first start.

        Raises:
            GmiError: see `Session.start`.
        """
        if self._first.is_pending:
            self._first.on_start()
        started = time.monotonic()
        session.start(claim)
        uncounted_s = session.compiled_s if self._first.is_pending else 0.0
        self._first.compiled_s += uncounted_s
        self._first.is_pending = False
        return time.monotonic() - started - uncounted_s


@dataclass
class _First:
    """The first start of a session in a budget and its parts, which share this."""

    on_start: Callable[[], None]
    is_pending: bool = True
    compiled_s: float = 0.0


def budget_of(
    seconds: float, task: TaskSpec, config: RunConfig, node: Node, tell: Callable[[str], None] = lambda line: None
) -> Budget:
    """A budget for measuring a workload.

    `tell` is called with a line if MuJoCo Warp is missing on a node with GPUs, and before a start that may compile
    kernels.
    """
    found, on_gpu = find_task(task.name), node.num_gpus > 0
    if warning := missing_warp(found, on_gpu=on_gpu, physics=config.physics):
        tell(warning)
    ours = not isinstance(found, ForeignTask)
    compiles_nothing = ours and (config.physics or usual_physics(on_gpu)) == "native"
    return Budget(seconds, (lambda: None) if compiles_nothing else (lambda: tell(COMPILING)))


@dataclass
class Pace:
    """The seconds that measuring is expected to take on one kind of device, updated after every point.

    Args:
        measure_s: Iterations at each point, at least one.
        walk_s: A useful walk over numbers of environments, with the start of its process.
        beside_s: The rest of a point, without one iteration of the warm-up: making environments, capturing graphs, and
            further iterations of the warm-up.
        start_s: The start of a process until it is ready, without compiling kernels.
    """

    measure_s: float
    walk_s: float
    beside_s: float = 0.0
    start_s: float = START_S

    def has_run(self, took_s: float, measured: Measured) -> None:
        """Update `beside_s` with a point that took `took_s` seconds in all."""
        self.beside_s = max(0.0, took_s - (measured.iterations + 1) * measured.iteration_s)

    def expected_s(self, iteration_s: float = 0.0) -> float:
        """Seconds of a point in a started process. 0 for `iteration_s` means that an iteration is quick."""
        return self.beside_s + max(iteration_s, self.measure_s) + (iteration_s or self.measure_s)

    @property
    def first_s(self) -> float:
        """Seconds of a first point, with the start of its process."""
        return self.start_s + self.expected_s()

    def share(self, left_s: float, walks: int) -> float:
        """The fraction of `left_s` seconds that the next of `walks` walks gets.

        If the time is enough for n useful walks, each of these gets an equal part; later ones get what is left over.
        """
        return 1 / int(max(1.0, min(walks, left_s / self.walk_s)))
