"""The devices that are held for a layout, on this host or on others: how they are cut."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from typing import Protocol

from gmi_drl.gmi import Claim, Instances
from gmi_drl.hardware import host_memory
from gmi_drl.launch.job import Job
from gmi_drl.launch.processes.gmi_handle import Starter
from gmi_drl.launch.processes.gmi_process import processes_here
from gmi_drl.launch.processes.gmi_restarts import kept_open
from gmi_drl.launch.rooms import free_now, require_room
from gmi_drl.launch.shared_resources import shared_resources
from gmi_drl.roles.launcher.resources import Resources


class LateGMIs(Protocol):
    """Tells which GMIs can be started later than the others, as their nodes join the run."""

    @property
    def absent(self) -> Collection[int]:
        """Those that cannot be started yet."""

    def come(self) -> Sequence[int]:
        """Those that can be started since the last call."""


@dataclass(frozen=True)
class OpenedDevices:
    """Devices that are cut, a function that starts a GMI on them, and one that makes what the GMIs share.

    `shared` is used for a `with` block in which the GMIs start. It gets the ids of those that may be started again:
    what these inherit is kept until the cut is undone. `late` is None where all GMIs can be started at once.
    """

    instances: Instances
    start: Starter
    shared: Callable[[Collection[int]], AbstractContextManager[Mapping[int, Resources]]]
    late: LateGMIs | None = None


class DeviceOpener(Protocol):
    """Devices that are held, here or on other hosts, and can be cut."""

    def cut(self, job: Job, environment: Mapping[str, str | None]) -> AbstractContextManager[OpenedDevices]:
        """Cut the devices into the job's layout for the time of a `with` block, which must outlast the GMIs.

        Args:
            job: What its GMIs run.
            environment: Variables of the GMIs that differ from those of the backend; None removes one.

        Raises:
            UsageError: if the devices are held for another layout.
            MachineError: if they cannot be cut, or hosts have too little memory.
        """


@dataclass(frozen=True)
class LocalDevices:
    """The claimed devices of this host. See `DeviceOpener`."""

    claim: Claim

    @contextmanager
    def cut(self, job: Job, environment: Mapping[str, str | None]) -> Iterator[OpenedDevices]:
        """See `DeviceOpener`."""
        require_room([free_now("this machine", host_memory.available_bytes(), (room for _, room in job.rooms))])
        with self.claim.cut(job.layout) as instances, processes_here() as start, ExitStack() as kept:

            @contextmanager
            def shared(restartable: Collection[int]) -> Iterator[Mapping[int, Resources]]:
                links = job.config.learner.has_shards
                with shared_resources(job.layout, job.slot_bytes, links=links) as made:
                    yield {**made, **kept.enter_context(kept_open(made, restartable))}

            yield OpenedDevices(instances, start, shared)
