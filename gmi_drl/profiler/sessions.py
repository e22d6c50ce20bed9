"""Sessions of several layouts on the same devices. One measures at a time."""

from collections.abc import Mapping
from contextlib import ExitStack
from math import inf
from types import TracebackType
from typing import Generic, Self, TypeVar

from gmi_drl.errors import GmiError
from gmi_drl.gmi import claimed
from gmi_drl.layout.backends import coexist
from gmi_drl.profiler.budget import Budget
from gmi_drl.profiler.session import Session

Name = TypeVar("Name")


class Sessions(Generic[Name]):
    """Several sessions with one claim of all their devices, alive within a `with` block.

    If their backends allow several cuts of a device at once, as on cores, all sessions are started at the beginning.
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
        self._coexist = coexist(session.layout.backend for session in sessions.values())
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
