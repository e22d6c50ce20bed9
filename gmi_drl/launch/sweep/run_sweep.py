"""Runs a sweep, or goes on with one: measures how many trials run at once, then works through the queue."""

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from gmi_drl.errors import InUseError, MachineError, UsageError
from gmi_drl.gmi.claims import Shared, claim
from gmi_drl.gmi.inventory import allowed_cores, visible_gpus
from gmi_drl.gmi.inventory.core_load import CoreLoad
from gmi_drl.launch.launchers import RAY
from gmi_drl.launch.ray.cluster import running_nodes
from gmi_drl.launch.signals import StopRequest
from gmi_drl.launch.sweep.measure import candidates, measure, soonest
from gmi_drl.launch.sweep.queue import Queue
from gmi_drl.launch.sweep.slots import Slot, make_slots, slots_on_nodes
from gmi_drl.launch.sweep.sweep_file import Sweep, Trial, write_sweep
from gmi_drl.launch.sweep.trial_process import Ended, forget_failures, read_ended
from gmi_drl.units import counted

LOCK = ".lock"

DISTURBED = 0.1
"""The share of the cores that other programs took from which more trainings than cores are not trusted: they are
faster for taking time from the others."""


@dataclass(frozen=True)
class Listener:
    """What hears of a sweep's progress.

    Args:
        tell: Called with a line for the user.
        on_end: Called with each trial that has ended for good, and the seconds in which trials have run.
    """

    tell: Callable[[str], None]
    on_end: Callable[[Trial, Ended, float], None]


def run_sweep(folder: Path, sweep: Sweep, request: StopRequest, listener: Listener) -> bool:
    """Run the trials of a sweep that have not ended or have failed. Returns whether all have ended; not after a signal.

    Args:
        folder: Has `sweep.json`.
        sweep: As in it.
        request: Of a signal.
        listener: Hears of the progress.

    Raises:
        InUseError: if another process runs this sweep.
        GmiError: if a training to measure by fails.
    """
    cores, gpus = allowed_cores(), [gpu.uuid for gpu in visible_gpus()]
    with locked_sweep(folder):
        if again := forget_failures(folder, sweep.trials):
            listener.tell(f"{counted(again, 'trial')} failed before: tried again")
        has_all = len(sweep.trials) == sweep.total
        if has_all and all(read_ended(folder, trial) is not None for trial in sweep.trials):
            return True
        nodes = running_nodes() if sweep.launcher == RAY else []
        if nodes:
            sweep = _on_whole_devices(folder, sweep, len(gpus) or len(cores))
        elif sweep.at_once is None:
            sweep = _measured(folder, sweep, cores, gpus, request, listener)
        if request.signal is not None or sweep.at_once is None:
            return False
        at_once = sweep.at_once
        slots = slots_on_nodes(nodes, at_once, cores, gpus) if nodes else make_slots(at_once, cores, gpus)
        if nodes:
            listener.tell(
                f"{len(slots)} at once, on {', '.join(dict.fromkeys(slot.node.name for slot in slots if slot.node))}"
            )
        with _held(slots, folder):
            return Queue(folder, sweep, slots, request, listener.on_end, listener.tell).run()


def _measured(
    folder: Path, sweep: Sweep, cores: list[int], gpus: list[str], request: StopRequest, listener: Listener
) -> Sweep:
    """The sweep with how many trials run at once."""
    devices = len(gpus) or len(cores)
    slots_for: Callable[[int], list[Slot]] = partial(make_slots, cores=cores, gpus=gpus)
    usual = min(devices, sweep.total)
    is_busy = not all(slot.is_free() for slot in slots_for(devices))
    if sweep.command is not None or is_busy:
        reason = "other runs use this machine" if is_busy else "a program does not tell how fast it is"
        listener.tell(f"{usual} at once, one per core or GPU: not measured, as {reason}")
        chosen = sweep.model_copy(update={"at_once": usual})
    else:
        listener.tell("Measuring how many trainings at once end soonest...")
        numbers = candidates(sweep.total, devices)
        load = CoreLoad(cores)
        speeds = measure(folder, sweep, numbers, slots_for, partial(_held, folder=folder), request, listener.tell)
        if request.signal is not None:
            return sweep
        if (others := load.others()) > DISTURBED and not gpus:
            named = f": {takers}" if (takers := load.takers()) else ""
            listener.tell(f"Other programs took {others:.0%} of the cores meanwhile{named}. No more than one per core.")
            speeds = {number: speed for number, speed in speeds.items() if number <= devices}
        at_once = soonest(speeds, sweep.total)
        measured = {str(number): speed for number, speed in speeds.items()}
        chosen = sweep.model_copy(update={"at_once": at_once, "measured": measured})
    write_sweep(folder, chosen)
    return chosen


def _on_whole_devices(folder: Path, sweep: Sweep, devices: int) -> Sweep:
    """The sweep with one trial per core or GPU of a node, unless it has less: Ray gives whole ones."""
    if sweep.at_once is not None and sweep.at_once > devices:
        raise UsageError(f"--at-once {sweep.at_once}: Ray gives whole cores and GPUs, {devices} per node at most")
    chosen = sweep.model_copy(update={"at_once": sweep.at_once or devices})
    write_sweep(folder, chosen)
    return chosen


@contextmanager
def _held(slots: list[Slot], folder: Path) -> Iterator[None]:
    """Hold devices that several slots have, together with other sweeps; others are held for or by each trial."""
    shared = {device for slot in slots if slot.shares for device in slot.devices}
    with claim([Shared(device) for device in sorted(shared)], f"sweep {folder}"):
        yield


@contextmanager
def locked_sweep(folder: Path) -> Iterator[None]:
    """Lock the folder of a sweep. The lock ends with the process.

    Raises:
        InUseError: if another process has locked it.
        MachineError: if it cannot be written or locked.
    """
    try:
        descriptor = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    except OSError as error:
        raise MachineError(f"{folder}: {LOCK} cannot be written: {error.strerror}") from None
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise InUseError(f"{folder}: another process runs this sweep: wait for it or stop it") from None
        except OSError as error:
            raise MachineError(f"{folder}: {LOCK} cannot be locked: {error.strerror}") from None
        yield
    finally:
        os.close(descriptor)
