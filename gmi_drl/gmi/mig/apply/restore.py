"""Restores the MIG instances and the mode of a GPU from a record. Called by the launcher and by its watchdog."""

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from gmi_drl.errors import GmiError
from gmi_drl.gmi.claims import claims_folder, locked
from gmi_drl.gmi.inventory import nvml_open
from gmi_drl.gmi.mig.apply.change import Patience, steps
from gmi_drl.gmi.mig.apply.difference import commands, difference, mode_command
from gmi_drl.gmi.mig.apply.record import Record, drop_record, read_record, record_file
from gmi_drl.gmi.mig.driver import MigDriver
from gmi_drl.gmi.mig.state import MigState

PATIENCE_S = 30.0
"""Per GPU: deadline for the processes of a killed run to end, and for NVML to do what it refuses at first."""

GPU_S = 2 * PATIENCE_S
"""Per GPU: deadline for the whole restoring, with the time of the calls themselves."""


def restore_all(notes: Mapping[str, Any]) -> list[str]:
    """Restore GPUs. An `Undo` of the watchdog: the notes are the records of the GPUs, by their UUIDs."""
    return [text for note in notes.values() for text in restore(Record.from_json(note))]


def restore(record: Record, patience_s: float = PATIENCE_S) -> list[str]:
    """Restore a GPU: destroy the instances that we have made, and no others, and make the missing ones.

    Returns:
        How the GPU differs from before, in sentences with the commands to restore it; empty if it does not. Then the
        file of the record is removed.
    """
    gpu, known = record.before.gpu, record.of_this_boot()
    if known is None:
        drop_record(gpu)
        return []
    try:
        with nvml_open():
            left = _restore(known, MigDriver(gpu), Patience.of(patience_s))
    except GmiError as error:
        return [f"{gpu} may not have the MIG instances that it had: {error}"]
    if not left:
        drop_record(gpu)
    return left


def left_behind(gpu: str) -> str:
    """How a run that was killed with its watchdog has left a GPU, with the remedy; empty if it is as before.

    Raises:
        MachineError: if the record cannot be read.
    """
    with suppress(OSError):
        if locked(claims_folder() / f"gpu-{gpu}"):
            return ""  # a run uses it, or is being undone
    if (record := read_record(gpu)) is None:
        return ""
    try:
        with nvml_open():
            left = _left(record, _read(MigDriver(gpu), Patience.of(0)), [])
    except GmiError:  # e.g. NVML shows the instances to root only
        left = [f"{gpu} may not have got back the MIG instances that it had"]
    again = f"a run was killed with its watchdog, the next one with --apply-mig restores it by {record_file(gpu)}"
    return f"{'; '.join(left)}\n{again}" if left else ""


def _restore(record: Record, driver: MigDriver, patience: Patience) -> list[str]:
    before, refused = record.before, list[str]()
    state = _read(driver, patience)
    if before.enabled and not state.enabled:  # we never turn it off in this case
        drop_record(before.gpu)
        return [f"somebody else has turned MIG mode of {before.gpu} off: its instances are not made again"]
    if state.enabled:
        changes = difference(state, before.shapes, goes=record.is_ours, part_goes=record.is_our_part)
        for step in steps(driver, changes, patience):
            try:
                step()
            except GmiError as error:
                refused.append(str(error))
        state = _read(driver, patience)
    if _mode_is_ours(record, state) and not state.instances:
        try:
            patience("turning MIG mode off", lambda: driver.set_mode(enabled=False))
        except GmiError as error:
            refused.append(str(error))
        state = _read(driver, patience)
    return _left(record, state, refused)


def _read(driver: MigDriver, patience: Patience) -> MigState:
    return patience(f"reading the MIG instances of {driver.gpu}", driver.state)


def _mode_is_ours(record: Record, now: MigState) -> bool:
    """Whether MIG mode was off, is or will be on, and all present instances are ours."""
    was_off = not record.before.enabled and not record.before.pending
    return was_off and (now.enabled or now.pending) and all(map(record.is_ours, now.instances))


def _left(record: Record, now: MigState, refused: list[str]) -> list[str]:
    """How a GPU differs from the record, with the commands to restore it; empty if it does not."""
    before = record.before
    changes = difference(now, before.shapes, goes=record.is_ours, part_goes=record.is_our_part)
    lines = commands(before.gpu, changes)
    if _mode_is_ours(record, now):
        lines.append(mode_command(before.gpu, enabled=False))
    if not lines:
        return []
    why = f" ({'; '.join(refused)})" if refused else ""
    by_hand = "".join(f"\n  {line}" for line in lines)
    return [f"{before.gpu} has not got back the MIG instances that it had{why}; by hand:{by_hand}"]
