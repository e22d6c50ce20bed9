"""The one way to open a layout: whoever runs GMIs holds its devices by `hold_devices`, and opens it by `opened`."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from gmi_drl.config.run_config import RunConfig
from gmi_drl.errors import MachineError
from gmi_drl.gmi import Claim, claimed
from gmi_drl.launch.hosts import DeviceOpener, LocalDevices
from gmi_drl.launch.nodes.remote_hosts import on_nodes
from gmi_drl.launch.nodes.starters import SupervisorStarter
from gmi_drl.launch.processes.gmi_processes import GMIProcesses
from gmi_drl.launch.processes.gmi_restarts import GMIRestarts, kept_open
from gmi_drl.layout.layout import Layout
from gmi_drl.layout.reductions import REDUCTIONS
from gmi_drl.run.folder import RunFolder


def hold_devices(
    layout: Layout,
    purpose: str,
    agents: SupervisorStarter | None = None,
    *,
    apply_mig: bool = False,
    tell: Callable[[str], None] = lambda line: None,
) -> AbstractContextManager[Claim | DeviceOpener]:
    """Hold them for the time of a `with` block: those of this machine, or of the layout's nodes by their `agents`.

    Args:
        layout: Whose devices.
        purpose: Tells others who holds them, e.g. the run folder.
        agents: Starts the agents of its nodes; None for a layout of this machine.
        apply_mig: Make the MIG instances that the layout wants, and restore afterwards what was there.
        tell: Told of a node that falls silent, in a line.

    Raises:
        LayoutMismatchError: if the layout does not fit this machine, or another process holds a device.
        MachineError: if agents do not come, or claims cannot be kept.
    """
    if agents is None:
        return claimed([layout], purpose, apply_mig=apply_mig)
    return on_nodes(layout, purpose, agents, apply_mig=apply_mig, tell=tell)


@contextmanager
def opened(
    claim: Claim | DeviceOpener,
    layout: Layout,
    config: RunConfig,
    folder: RunFolder,
    roles: Mapping[int, str],
    params: Mapping[str, Any],
    *,
    slot_bytes: int,
    environment: Mapping[str, str | None] | None = None,
    succession: GMIRestarts | None = None,
) -> Iterator[GMIProcesses]:
    """The GMIs of a layout as running processes, for the time of a `with` block.

    The devices are cut, the setup is written into the run folder and the processes are started. However the block ends,
    processes and cut are undone.

    Args:
        claim: Of the devices, made outside (`hold_devices`), since several layouts may live on the same.
        layout: What to open.
        config: How its GMIs train; their deadline `hang_s` is here.
        folder: Made by `RunFolder.create`.
        roles: Location of each GMI's role, by its id: `FILE.py:CLASS` or `MODULE:CLASS`.
        params: Keyword arguments of `GMI_run` (JSON).
        slot_bytes: Shared memory per GMI and group; longer vectors are reduced in pieces.
        environment: Variables of the GMIs that differ from what the backend gives; None takes one away.
        succession: Whose processes are started again when they die; None: nobody's.

    Raises:
        UsageError: if the layout is not one of the claim.
        MachineError: if the devices cannot be cut, there is no room for the shared memory, or what a group reduces by
            is not installed.
    """
    _check_installed(layout)
    where: DeviceOpener = LocalDevices(claim) if isinstance(claim, Claim) else claim
    with where.laid(layout, folder, slot_bytes, environment or {}) as ground, ExitStack() as life:
        folder.write_setup(layout, config)
        with ground.shared() as shared:
            resources = {**shared, **life.enter_context(kept_open(shared, succession.gmis))} if succession else shared
            processes = life.enter_context(
                GMIProcesses(
                    layout,
                    roles,
                    params,
                    folder,
                    ground.instances,
                    ground.start,
                    hang_s=config.hang_s,
                    resources=resources,
                    environment=environment or {},
                    succession=succession,
                )
            )
        yield processes


@contextmanager
def opened_briefly(
    claim: Claim, layout: Layout, role: str, params: Mapping[str, Any], *, slot_bytes: int, hang_s: float
) -> Iterator[GMIProcesses]:
    """As `opened`, with the same role for all GMIs, which trains nothing, and a run folder that is gone afterwards."""
    with TemporaryDirectory(prefix="gmi-drl-") as path:
        folder = RunFolder(Path(path), stays=False)
        folder.create()
        roles, config = {gmi.id: role for gmi in layout.gmis}, RunConfig(hang_s=hang_s)
        with opened(claim, layout, config, folder, roles, params, slot_bytes=slot_bytes) as processes:
            yield processes


def _check_installed(layout: Layout) -> None:
    for name in {group.reduction for group in layout.groups.values() if len(group.members) > 1}:
        if missing := REDUCTIONS.find(name).missing():
            raise MachineError(missing)
