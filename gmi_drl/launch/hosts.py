"""Where the GMIs of a layout are started: on this host, or on others."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Protocol

from gmi_drl.gmi import Claim, Instances
from gmi_drl.launch.processes.gmi_handle import Starter
from gmi_drl.launch.processes.gmi_process import processes_here
from gmi_drl.launch.shared_resources import shared_resources
from gmi_drl.layout.layout import Layout
from gmi_drl.roles.launcher.resources import Resources
from gmi_drl.run.folder import RunFolder


@dataclass(frozen=True)
class OpenedDevices:
    """Devices that are cut, a way to start GMIs on them, and what these share while they are started."""

    instances: Instances
    start: Starter
    shared: Callable[[], AbstractContextManager[Mapping[int, Resources]]]


class DeviceOpener(Protocol):
    """Devices that are held, here or elsewhere: on them a layout is laid."""

    def laid(
        self, layout: Layout, folder: RunFolder, slot_bytes: int, environment: Mapping[str, str | None]
    ) -> AbstractContextManager[OpenedDevices]:
        """Cut the devices for the time of a `with` block, which ends after the last of the GMIs.

        Args:
            layout: What to cut them into.
            folder: Of the run.
            slot_bytes: Shared memory for each GMI and group.
            environment: Variables of the GMIs that differ from what the backend gives; None takes one away.

        Raises:
            UsageError: if the devices are held for another layout.
            MachineError: if they cannot be cut.
        """


@dataclass(frozen=True)
class LocalDevices:
    """This host, by a claim on its devices. See `DeviceOpener`."""

    claim: Claim

    @contextmanager
    def laid(
        self, layout: Layout, folder: RunFolder, slot_bytes: int, environment: Mapping[str, str | None]
    ) -> Iterator[OpenedDevices]:
        """See `DeviceOpener`."""
        with self.claim.cut(layout) as instances, processes_here() as start:
            yield OpenedDevices(instances, start, lambda: shared_resources(layout, slot_bytes))
