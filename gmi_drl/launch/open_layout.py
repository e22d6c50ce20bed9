"""Run the GMIs of a layout: `hold_devices` holds its devices, `opened` cuts them and starts the processes."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any

from gmi_drl.config.run_config import RunConfig
from gmi_drl.errors import MachineError
from gmi_drl.gmi import Claim, claimed
from gmi_drl.launch.hosts import DeviceOpener, LocalDevices
from gmi_drl.launch.job import Job
from gmi_drl.launch.nodes.remote_hosts import on_nodes
from gmi_drl.launch.nodes.supervisor_starters import SupervisorStarter
from gmi_drl.launch.processes.gmi_processes import GMIProcesses
from gmi_drl.launch.processes.gmi_restarts import GMIRestarts, Losses
from gmi_drl.launch.processes.temporary_folder import temporary_folder
from gmi_drl.layout.layout import Layout
from gmi_drl.layout.reductions import REDUCTIONS
from gmi_drl.run.folder import RunFolder


def hold_devices(
    layout: Layout,
    purpose: str,
    supervisors: SupervisorStarter | None = None,
    *,
    apply_mig: bool = False,
    tell: Callable[[str], None] = lambda line: None,
) -> AbstractContextManager[Claim | DeviceOpener]:
    """Hold the devices of a layout for the time of a `with` block: those of this machine, or of the layout's nodes.

    Args:
        layout: The layout whose devices are held.
        purpose: Tells others who holds them, e.g. the run folder.
        supervisors: Starts the supervisors of the layout's nodes; None for a layout of this machine.
        apply_mig: Make the MIG instances that the layout wants, and restore afterwards what was there.
        tell: Called with a line about a node that falls silent.

    Raises:
        LayoutMismatchError: if the layout does not fit this machine, or another process holds a device.
        MachineError: if a supervisor does not connect, or claims cannot be kept.
    """
    if supervisors is None:
        return claimed([layout], purpose, apply_mig=apply_mig)
    return on_nodes(layout, purpose, supervisors, apply_mig=apply_mig, tell=tell)


@contextmanager
def opened(
    claim: Claim | DeviceOpener,
    job: Job,
    params: Mapping[str, Any],
    *,
    environment: Mapping[str, str | None] | None = None,
    restarts: GMIRestarts | None = None,
    losses: Losses | None = None,
) -> Iterator[GMIProcesses]:
    """Run the GMIs of a job as processes for the time of a `with` block.

    Cuts the devices, writes the setup into the run folder and starts the processes. However the block ends, the
    processes are ended and the cut is undone.

    Args:
        claim: The devices, as `hold_devices` gives them: several layouts may be opened on the same.
        job: What the GMIs run.
        params: Keyword arguments of `GMI_run` (JSON).
        environment: Variables of the GMIs that differ from those of the backend; None removes one.
        restarts: The GMIs that are started again when they die; None: no GMI is.
        losses: See `GMIProcesses`.

    Raises:
        UsageError: if the layout is not one of the claim.
        MachineError: if the devices cannot be cut, there is no room for the shared memory, or what a group reduces by
            is not installed.
    """
    _check_installed(job.layout)
    devices: DeviceOpener = LocalDevices(claim) if isinstance(claim, Claim) else claim
    variables = environment or {}
    with devices.cut(job, variables) as cut, ExitStack() as life:
        job.folder.write_setup(job.layout, job.config)
        job.write_policies()
        with cut.shared(restarts.gmis if restarts else ()) as resources:
            gmis = GMIProcesses(job, params, cut.instances, cut.start, resources, variables, restarts, losses, cut.late)
            processes = life.enter_context(gmis)
        yield processes


@contextmanager
def opened_briefly(
    claim: Claim, layout: Layout, role: str, params: Mapping[str, Any], *, slot_bytes: int, hang_s: float
) -> Iterator[GMIProcesses]:
    """As `opened`, with one role that does not train for all GMIs, and a temporary run folder."""
    with temporary_folder("gmi-drl-") as path:
        folder = RunFolder(path, stays=False)
        folder.create()
        roles = {gmi.id: role for gmi in layout.gmis}
        with opened(claim, Job(layout, RunConfig(hang_s=hang_s), folder, roles, slot_bytes), params) as processes:
            yield processes


def _check_installed(layout: Layout) -> None:
    for name in {group.reduction for group in layout.groups.values() if len(group.members) > 1}:
        if missing := REDUCTIONS.find(name).missing():
            raise MachineError(missing)
