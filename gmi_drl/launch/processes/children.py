"""The processes of a layout by their numbers: how they are started, replaced and killed."""

import os
import selectors
import shutil
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, suppress
from typing import Any

from gmi_drl.gmi import Instances
from gmi_drl.launch.job import Job
from gmi_drl.launch.processes.gmi_handle import GMIHandle, Starter
from gmi_drl.layout.environment import without_mps
from gmi_drl.roles.launcher.resources import Resources


class Children(Mapping[int, GMIHandle]):
    """One process per number, each with its environment complete, its log, what it shares and one line to here.

    Args:
        order: What `roles.main` reads, the same for all: `add` says the rest.
        job: What the GMIs run. The meeting folder in its run folder is made by `open` and removed by `kill`.
        instances: What the devices of this layout are cut into.
        start: Starts one GMI.
        resources: What they share, by their numbers.
        environment: Variables that differ from what the backend gives; None takes one away.

    Attributes:
        predecessors: How many processes of a number have been replaced.
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
        self._start, self._resources, self._environment = start, resources, environment
        self.predecessors: Counter[int] = Counter()
        self._running: dict[int, GMIHandle] = {}
        self._selector = selectors.DefaultSelector()

    def __getitem__(self, number: int) -> GMIHandle:
        return self._running[number]

    def __iter__(self) -> Iterator[int]:
        return iter(self._running)

    def __len__(self) -> int:
        return len(self._running)

    def open(self) -> None:
        """Make the meeting folder. After this, `kill` must be called."""
        # By this the meeting folder is removed, since somebody may move the run folder, or put another in its place.
        self._home = os.open(self._folder.path, os.O_PATH | os.O_DIRECTORY)
        try:
            shutil.rmtree(self._folder.meeting, ignore_errors=True)  # of a launcher that was killed
            self._folder.meeting.mkdir()
        except BaseException:
            self.kill()
            raise

    def add(self, number: int) -> None:
        """Start the process of a number."""
        order = self._order | {"gmi": number, "role": self._roles.get(number)}
        order |= {"predecessors": self.predecessors[number]}
        wanted = {**without_mps(os.environ), **self._instances.environment(number), **self._environment}
        environment = {name: value for name, value in wanted.items() if value is not None}
        child = self._start(order, environment, self._folder.log_file(number), self._resources[number])
        self._running[number] = child
        self._selector.register(child.line_fd, selectors.EVENT_READ, (number, False))
        self._selector.register(child.exit_fd, selectors.EVENT_READ, (number, True))

    def replace(self, number: int) -> None:
        """End what is left of a process that has died, and start another one in its place."""
        child = self._running.pop(number)
        for descriptor in (child.line_fd, child.exit_fd):
            with suppress(KeyError):  # one of them has ended first
                self._selector.unregister(descriptor)
        self._instances.release([child.pid])
        child.end()
        child.close()
        self.predecessors[number] += 1
        self.add(number)

    def wait(self, wait_s: float) -> list[tuple[int, bool]]:
        """Wait at most so long for a message or an end. Returns whose, and whether the process has ended."""
        return [key.data for key, _ in self._selector.select(wait_s)]

    def ignore(self, descriptor: int) -> None:
        """Wait no more for what comes by a child's `line_fd` or `exit_fd`."""
        self._selector.unregister(descriptor)

    def kill(self) -> None:
        """Kill every process with its group, and remove the meeting folder."""
        try:
            self._instances.release([child.pid for child in self.values()])
        finally:  # also when that fails, or Ctrl-C cuts it short
            with ExitStack() as ends:  # the last one first, whatever one of them raises
                ends.callback(os.close, self._home)
                ends.callback(shutil.rmtree, self._folder.meeting.name, ignore_errors=True, dir_fd=self._home)
                ends.callback(self._selector.close)
                for child in self.values():
                    ends.callback(child.close)
                    ends.callback(child.end)
