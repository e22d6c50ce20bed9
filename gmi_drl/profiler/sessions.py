"""Sessions of several layouts on the same devices. One measures at a time."""

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from math import inf
from types import TracebackType
from typing import Generic, Self, TypeVar

from gmi_drl.errors import GmiError
from gmi_drl.gmi import ProcessBackend, claimed
from gmi_drl.gmi.inventory import visible_gpus
from gmi_drl.layout.backends import PROCESS, coexist
from gmi_drl.layout.layout import Layout
from gmi_drl.profiler.budget import Budget
from gmi_drl.profiler.session import Session

Name = TypeVar("Name")


class Sessions(Generic[Name]):
    """Several sessions with one claim of all their devices, alive within a `with` block.

    If backends and the compute modes of GPUs allow several at once, as on cores, all are started at the beginning.
    The error of one that fails is raised when it is asked for. Otherwise a session is started when it is asked for,
    after the one before was closed.

    Args:
        sessions: By name, not started.
        purpose: Shown to others that want the devices.
        budget: The starts count against it.

    Raises:
        LayoutMismatchError: if a layout does not fit this machine, or a device is in use.
    """

    def __init__(self, sessions: Mapping[Name, Session], purpose: str, budget: Budget | None = None) -> None:
        self._sessions, self._purpose, self._budget = dict(sessions), purpose, budget or Budget(inf)
        layouts = [session.layout for session in sessions.values()]
        self._coexist = coexist(layout.backend for layout in layouts) and not _exceed_compute_mode(layouts)
        self._alive: set[Name] = set()
        self._failed: dict[Name, GmiError] = {}
        self._life = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as life:
            layouts = [session.layout for session in self._sessions.values()]
            self._claim = life.enter_context(claimed(layouts, self._purpose))
            life.callback(self._close_all)
            for name in self._sessions if self._coexist else ():
                try:
                    self._start(name)
                except GmiError as error:
                    self._failed[name] = error
            self._life = life.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._life.close()

    def __getitem__(self, name: Name) -> Session:
        """The session of this name, alive. If it was closed, it is started again.

        Raises:
            GmiError: when a GMI fails, dies or does not start, or did so at the beginning.
        """
        if name in self._failed:
            raise self._failed.pop(name)
        if name not in self._alive:
            if not self._coexist:
                self._close_all()
            self._start(name)
        return self._sessions[name]

    def close(self, name: Name) -> None:
        """End the GMIs of a session."""
        self._alive.discard(name)
        self._sessions[name].close()

    def _start(self, name: Name) -> None:
        self._budget.start(self._sessions[name], self._claim)
        self._alive.add(name)

    def _close_all(self) -> None:
        with ExitStack() as stack:  # if closing one fails, the others are closed, too
            for name in self._alive:
                stack.callback(self.close, name)


def _exceed_compute_mode(layouts: Sequence[Layout]) -> bool:
    """Whether plain processes of all these layouts together are more than a GPU takes, as in mode exclusive process."""
    plain = [device for layout in layouts if layout.backend == PROCESS.name for device in layout.devices]
    processes = Counter(device.index for device in plain if device.kind == "gpu" for _ in device.gmis)
    gpus = visible_gpus() if processes else []
    return any(ProcessBackend.obstacle(gpu, processes[index]) for index, gpu in enumerate(gpus) if index in processes)
