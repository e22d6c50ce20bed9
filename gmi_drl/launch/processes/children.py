"""Starts, replaces and kills the processes of a layout, each under its number."""

import os
import selectors
import shutil
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, suppress
from typing import Any

from gmi_drl.comm.memory.wait_clock import WaitClock
from gmi_drl.gmi import Instances
from gmi_drl.launch.job import Job
from gmi_drl.launch.processes.gmi_handle import GMIHandle, Starter
from gmi_drl.layout.environment import without_mps
from gmi_drl.roles.launcher.resources import Resources


class Children(Mapping[int, GMIHandle]):
    """The running processes by their numbers, each with its log and a connection to this process.

    Args:
        order: The part of the order for `roles.main` that all processes have in common.
        job: What the GMIs run. The rendezvous folder in its run folder is made by `open` and removed by `kill`.
        instances: What the devices of this layout are cut into.
        start: Starts a GMI.
        resources: What the processes inherit, by their numbers.
        environment: Variables that differ from those of the backend; None removes one.

    Attributes:
        predecessors: How often the process of a number has been replaced.
        starting: Since when those have been starting that have not attached to their device yet.
    """

    def __init__(
        self,
        order: Mapping[str, Any],
        job: Job,
        instances: Instances,
        start: Starter,
        resources: Mapping[int, Resources],
        environment: Mapping[str, str | None],
    ) -> None:
        self._order, self._roles, self._folder, self._instances = dict(order), job.roles, job.folder, instances
        self._job = job
        self._start, self._resources, self._environment = start, resources, environment
        self.predecessors: Counter[int] = Counter()
        self.starting: dict[int, WaitClock] = {}
        self._running: dict[int, GMIHandle] = {}
        self._selector = selectors.DefaultSelector()

    def __getitem__(self, number: int) -> GMIHandle:
        return self._running[number]

    def __iter__(self) -> Iterator[int]:
        return iter(self._running)

    def __len__(self) -> int:
        return len(self._running)

    def open(self) -> None:
        """Create the rendezvous folder. After this, `kill` must be called."""
        # `kill` removes the rendezvous folder by this descriptor: the run folder may be moved or replaced meanwhile.
        self._home = os.open(self._folder.path, os.O_PATH | os.O_DIRECTORY)
        try:
            shutil.rmtree(self._folder.rendezvous_folder, ignore_errors=True)  # left by a launcher that was killed
            self._folder.rendezvous_folder.mkdir()
        except BaseException:
            self.kill()
            raise

    def add(self, number: int) -> None:
        """Start the process of a number."""
        order = self._order | {"gmi": number, "role": self._roles.get(number)}
        order |= {"predecessors": self.predecessors[number]}
        own = self._job.folder_of(number)
        order |= {"layout": str(own.layout_file), "run_folder": str(own.path)}
        wanted = {**without_mps(os.environ), **self._instances.environment(number), **self._environment}
        environment = {name: value for name, value in wanted.items() if value is not None}
        child = self._start(order, environment, self._folder.log_file(number), self._resources[number])
        self._running[number], self.starting[number] = child, WaitClock()
        self._selector.register(child.connection_fd, selectors.EVENT_READ, (number, False))
        self._selector.register(child.exit_fd, selectors.EVENT_READ, (number, True))

    def note_start(self, number: int) -> None:
        """Note that a process has started. The others have as long again: on a slow machine all are late."""
        self.starting.pop(number, None)
        self.starting = {other: WaitClock() for other in self.starting}

    def replace(self, number: int) -> None:
        """Kill the process group of a process that has died, and start another one under its number."""
        self.drop(number)
        self.predecessors[number] += 1
        self.add(number)

    def drop(self, number: int) -> None:
        """Kill the process group of a process that has died, and forget it."""
        child = self._running.pop(number)
        self.starting.pop(number, None)
        for descriptor in (child.connection_fd, child.exit_fd):
            with suppress(KeyError):  # unregistered when it was seen to end
                self._selector.unregister(descriptor)
        try:
            self._instances.release({number: child.pid})
        finally:
            child.end()
            child.close()

    def wait(self, wait_s: float) -> list[tuple[int, bool]]:
        """Wait at most `wait_s` for messages and ends. Returns numbers, each with whether the process has ended."""
        return [key.data for key, _ in self._selector.select(wait_s)]

    def ignore(self, descriptor: int) -> None:
        """Stop waiting on a child's `connection_fd` or `exit_fd`."""
        self._selector.unregister(descriptor)

    def kill(self) -> None:
        """Kill every process group, and remove the rendezvous folder."""
        try:
            self._instances.release({number: child.pid for number, child in self.items()})
        finally:  # also if that fails or is interrupted
            with ExitStack() as ends:  # runs all in reverse order, also if one raises
                ends.callback(os.close, self._home)
                ends.callback(shutil.rmtree, self._folder.rendezvous_folder.name, ignore_errors=True, dir_fd=self._home)
                ends.callback(self._selector.close)
                for child in self.values():
                    ends.callback(child.close)
                    ends.callback(child.end)
