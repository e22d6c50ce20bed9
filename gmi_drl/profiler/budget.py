"""Seconds that may be spent on measuring."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import copy

from gmi_drl.config import RunConfig
from gmi_drl.hardware import Node
from gmi_drl.physics import usual_physics
from gmi_drl.task_names import ForeignTask, find_task
from gmi_drl.workload import TaskSpec

COMPILING = "starting the first GMI: kernels may be compiled now, once per machine, outside of the budget"


class Budget:
    """Counts down from its making, but not while a first GMI starts, and so do its parts.

    In the first start simulators compile their kernels, for minutes, and never again on this machine: what is bought
    with a budget must not depend on that.

    Args:
        seconds: In all; infinity for as long as it takes.
        on_first_start: Called when a first GMI begins to start.
    """

    def __init__(self, seconds: float, on_first_start: Callable[[], None] = lambda: None) -> None:
        self._first = _FirstStart(on_first_start)
        self._end = self._first.clock() + seconds

    @property
    def left_s(self) -> float:
        """Seconds that are left, never below 0."""
        return max(0.0, self._end - self._first.clock())

    @property
    def spares_next_start(self) -> bool:
        """Whether nothing has been started yet."""
        return self._first.began is None

    def part(self, fraction: float) -> "Budget":
        """A budget with a part of what is left; of both, and of other parts, one first start is spared."""
        part = copy(self)
        part._end = self._first.clock() + fraction * self.left_s
        return part

    @contextmanager
    def starting(self) -> Iterator[None]:
        """While a GMI starts, be it well or not."""
        if not self.spares_next_start:
            yield
            return
        self._first.begin()
        try:
            yield
        finally:
            self._first.end()


def budget_of(
    seconds: float, task: TaskSpec, config: RunConfig, node: Node, tell: Callable[[str], None] = lambda line: None
) -> Budget:
    """A budget for measuring a workload, which tells in a line when kernels may be compiled outside of it."""
    ours = not isinstance(find_task(task.name), ForeignTask)
    compiles_nothing = ours and (config.physics or usual_physics(on_gpu=node.num_gpus > 0)) == "native"
    return Budget(seconds, (lambda: None) if compiles_nothing else (lambda: tell(COMPILING)))


class _FirstStart:
    """A clock that stands still during one start."""

    def __init__(self, on_begin: Callable[[], None]) -> None:
        self._on_begin = on_begin
        self.began: float | None = None
        self._took_s: float | None = None

    def begin(self) -> None:
        self._on_begin()
        self.began = time.monotonic()

    def end(self) -> None:
        assert self.began is not None
        self._took_s = time.monotonic() - self.began

    def clock(self) -> float:
        if self.began is not None and self._took_s is None:
            return self.began
        return time.monotonic() - (self._took_s or 0.0)
