"""Makes the MIG instances that a layout wants on one GPU. Only unused instances are destroyed."""

import time
from collections.abc import Callable, Sequence

from gmi_drl.errors import LayoutMismatchError, MachineError
from gmi_drl.gmi.mig.apply.change import RETRY_S, Patience, steps
from gmi_drl.gmi.mig.apply.difference import commands, difference, mode_command
from gmi_drl.gmi.mig.apply.wanted import compute_shape, in_the_way, place_wholes
from gmi_drl.gmi.mig.assign import Assignment
from gmi_drl.gmi.mig.busy import NODES, claimed_elsewhere, hides_processes, users
from gmi_drl.gmi.mig.driver import MigDriver, in_words
from gmi_drl.gmi.mig.state import MigState, Shape
from gmi_drl.layout.cut_gpus import CutGpu
from gmi_drl.layout.layout import GMI, Device
from gmi_drl.layout.mig_instances import instance_names

PATIENCE_S = 10.0
"""Deadline for the processes of the previous cut to end."""

HIDDEN = "in this container NVML does not show whether others use it"
ON_HOST = "start on the host (--pid=host)"


def turn_on(driver: MigDriver) -> None:
    """Turn MIG mode on if it is off.

    Raises:
        MachineError: if that fails, or needs a reset.
        LayoutMismatchError: if the GPU is in use.
    """
    import pynvml

    if read(driver).enabled:
        return
    by_hand = f"by hand: {mode_command(driver.gpu, enabled=True)}"
    pids = driver.pids()
    if who := f"process {', '.join(map(str, pids))}" if pids else claimed_elsewhere().get(driver.gpu, ""):
        raise LayoutMismatchError(f"{driver.gpu} is in use by {who}, and MIG mode is off: end it, or {by_hand}")
    if hides_processes():
        raise MachineError(f"MIG mode of {driver.gpu} is off, and {HIDDEN}: {ON_HOST}, or {by_hand}")
    try:
        driver.set_mode(enabled=True)
    except pynvml.NVMLError_ResetRequired as error:
        reset = f"{by_hand}, then nvidia-smi -i {driver.gpu} --gpu-reset"
        raise MachineError(
            f"{driver.gpu} must be reset to turn MIG mode on, which is not done here; {reset}"
        ) from error
    except pynvml.NVMLError as error:
        raise MachineError(f"turning MIG mode of {driver.gpu} on: {in_words(error)}; {by_hand}") from error


def wanted_of(driver: MigDriver, device: Device, *, parts: bool) -> list[Shape]:
    """The instances that the GMIs of a GPU need.

    Args:
        driver: The MIG driver of the GPU.
        device: The layout's device, whose GMIs name profiles or get equal instances.
        parts: Whether the GMIs get compute instances of one GPU instance.

    Raises:
        UsageError: if there is no room for them, or no such profile.
    """
    state = read(driver)
    gpu, busy = CutGpu(device.index, state.model, device.gmis), users(driver, state)
    return [compute_shape(state, gpu, busy)] if parts else place_wholes(state, instance_names(gpu), busy)


def make(driver: MigDriver, wanted: Sequence[Shape], tell: Callable[[str], None]) -> MigState:
    """Make the wanted instances, and destroy those in their way.

    Args:
        driver: The MIG driver of the GPU.
        wanted: The wanted instances. Those that exist stay.
        tell: Called with a message that names the MIG devices to be destroyed.

    Returns:
        The state afterwards.

    Raises:
        LayoutMismatchError: before anything is changed, if a wanted or a blocking instance is in use.
        MachineError: if a change fails; others may have been made.
    """
    state = read(driver)
    blocking = [instance.id for instance in in_the_way(state, wanted)]
    changes = difference(state, wanted, goes=lambda instance: instance.id in blocking, part_goes=lambda part: True)
    _refuse_what_is_in_use(driver, state, wanted, changes.uuids)
    if changes.uuids:
        tell(
            f"destroying MIG devices of {driver.gpu}: {', '.join(changes.uuids)}; they are made again when the run ends"
        )
    try:
        for step in steps(driver, changes, Patience.of(PATIENCE_S)):
            step()
    except MachineError as error:
        raise MachineError(f"{error}; by hand: {'; '.join(commands(driver.gpu, changes))}") from error
    return read(driver)


def read(driver: MigDriver) -> MigState:
    """Read the MIG mode and instances of a GPU.

    Raises:
        MachineError: if NVML does not report them, as to users without the right to change them.
    """
    return Patience.of(PATIENCE_S)(f"reading the MIG instances of {driver.gpu}", driver.state)


def hand_out(gmis: Sequence[GMI], state: MigState, wanted: Sequence[Shape]) -> Assignment:
    """Give each GMI one of the wanted MIG devices, now existing: one of its profile, if it names one.

    Raises:
        MachineError: if this process may not open one of them.
    """
    places = {shape.place: [name for name, _ in shape.compute] for shape in wanted}
    there = [part for one in state.instances if one.place in places for part in one.compute]
    given = Assignment()
    for gmi in gmis:
        part = next(part for part in there if gmi.mig_profile in (None, part.profile))
        if not part.uuid:
            raise MachineError(f"GMI {gmi.id} has its {part.profile}, but this process may not open it: {NODES}")
        there.remove(part)
        given[gmi.id] = part.uuid
    return given


def _refuse_what_is_in_use(driver: MigDriver, state: MigState, wanted: Sequence[Shape], going: Sequence[str]) -> None:
    places = {shape.place for shape in wanted}
    touched = [one for one in state.instances if one.place in places or not one.uuids.isdisjoint(going)]
    deadline = time.monotonic() + PATIENCE_S
    while (who := users(driver, state)).keys() & {one.id for one in touched} and time.monotonic() < deadline:
        time.sleep(RETRY_S)
    if busy := [f"{one.profile} at {one.start} is in use by {who[one.id]}" for one in touched if one.id in who]:
        raise LayoutMismatchError(f"{driver.gpu}: {'; '.join(busy)}: wait for it, or stop it")
    if going and hides_processes():
        raise MachineError(
            f"{driver.gpu} has MIG devices in the way ({', '.join(going)}), and {HIDDEN}: {ON_HOST}, or "
            "destroy them by hand"
        )
