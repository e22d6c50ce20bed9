"""Restores the instances and the mode of a GPU as a record has them: what launcher and keeper both call."""

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
"""For each GPU: until the processes of a run that was killed are gone, and NVML does what it refuses for a moment."""

GPU_S = 2 * PATIENCE_S
"""For each GPU: until it must be restored, with the time that the calls themselves take."""


def restore_all(notes: Mapping[str, Any]) -> list[str]:
    """An `Undo` of the keeper: notes are records of GPUs, by their UUIDs."""
    return [text for note in notes.values() for text in restore(Record.from_json(note))]


def restore(record: Record, patience_s: float = PATIENCE_S) -> list[str]:
    """Make a GPU what it was: destroy what we have made, and nothing else, and make what is missing.

    Returns:
        What is not as before, in sentences, with the commands that make it so; empty if all is. Then the file of the
        record is gone.
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
    """How a GPU differs from what it was before a run that was killed with its keeper, and the remedy; empty if not.

    Raises:
        MachineError: if its record cannot be read.
    """
    with suppress(OSError):
        if locked(claims_folder() / f"gpu-{gpu}"):
            return ""  # a run is on, or being undone
    if (record := read_record(gpu)) is None:
        return ""
    try:
        with nvml_open():
            left = _left(record, _read(MigDriver(gpu), Patience.of(0)), [])
    except GmiError:  # a user's, perhaps, to whom NVML does not tell
        left = [f"{gpu} may not have got back the MIG instances that it had"]
    again = f"a run was killed with its keeper, the next one with --apply-mig restores it by {record_file(gpu)}"
    return f"{'; '.join(left)}\n{again}" if left else ""


def _restore(record: Record, driver: MigDriver, patience: Patience) -> list[str]:
    before, refused = record.before, list[str]()
    state = _read(driver, patience)
    if before.enabled and not state.enabled:  # which we never do
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
    """Whether MIG mode was off, is or will be on, and nobody else has made instances since."""
    was_off = not record.before.enabled and not record.before.pending
    return was_off and (now.enabled or now.pending) and all(map(record.is_ours, now.instances))


def _left(record: Record, now: MigState, refused: list[str]) -> list[str]:
    """How a GPU differs from what it was, and the commands that are left to do."""
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
