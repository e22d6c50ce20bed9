"""Restores the instances and the mode of a GPU as a record has them: what launcher and keeper both call."""

from collections.abc import Mapping
from typing import Any

from gmi_drl.errors import GmiError
from gmi_drl.gmi.inventory import nvml_open
from gmi_drl.gmi.mig.change import Patience, steps
from gmi_drl.gmi.mig.difference import commands, difference, mode_command
from gmi_drl.gmi.mig.driver import MigDriver
from gmi_drl.gmi.mig.parts import MigState
from gmi_drl.gmi.mig.record import Record, boot_id, drop_record

PATIENCE_S = 30.0
"""For each GPU: until the processes of a run that was killed are gone."""

GPU_S = 4 * PATIENCE_S
"""For each GPU: until it must be restored, with some steps that each took their patience."""


def restore_all(notes: Mapping[str, Any]) -> list[str]:
    """An `Undo` of the keeper: notes are records of GPUs, by their UUIDs."""
    return [text for note in notes.values() for text in restore(Record.from_json(note))]


def restore(record: Record, patience_s: float = PATIENCE_S) -> list[str]:
    """Make a GPU what it was: destroy what we have made, and nothing else, and make what is missing.

    Returns:
        What is not as before, in sentences, with the commands that make it so; empty if all is. Then the file of the
        record is gone.
    """
    if record.boot != boot_id():  # no instance survives that
        drop_record(record.before.gpu)
        return []
    try:
        with nvml_open():
            left = _restore(record, MigDriver(record.before.gpu), patience_s)
    except GmiError as error:
        return [f"{record.before.gpu} may not have the MIG instances that it had: {error}"]
    if not left:
        drop_record(record.before.gpu)
    return left


def _restore(record: Record, driver: MigDriver, patience_s: float) -> list[str]:
    before, refused = record.before, list[str]()
    state = _read(driver, patience_s)
    if state.enabled:
        changes = difference(state, before.shapes, goes=record.is_ours, part_goes=record.is_our_part)
        patience = Patience.of(patience_s)
        for step in steps(driver, changes, patience):
            try:
                step()
            except GmiError as error:
                refused.append(str(error))
        state = _read(driver, patience_s)
    if (state.enabled, state.pending) != (before.enabled, before.pending) and not state.instances:
        try:
            Patience.of(patience_s)("changing the MIG mode", lambda: driver.set_mode(enabled=before.pending))
        except GmiError as error:
            refused.append(str(error))
        state = _read(driver, patience_s)
    return _left(record, state, refused)


def _read(driver: MigDriver, patience_s: float) -> MigState:
    return Patience.of(patience_s)(f"reading the MIG instances of {driver.gpu}", driver.state)


def _left(record: Record, now: MigState, refused: list[str]) -> list[str]:
    """How a GPU differs from what it was, and the commands that are left to do."""
    before = record.before
    changes = difference(now, before.shapes, goes=record.is_ours, part_goes=record.is_our_part)
    lines = commands(before.gpu, changes) if now.enabled or before.enabled else []
    if now.pending != before.pending or now.enabled != before.enabled:
        lines.append(mode_command(before.gpu, enabled=before.pending))
    if not lines:
        return []
    why = f" ({'; '.join(refused)})" if refused else ""
    by_hand = "".join(f"\n  {line}" for line in lines)
    return [f"{before.gpu} has not got back the MIG instances that it had{why}; by hand:{by_hand}"]
