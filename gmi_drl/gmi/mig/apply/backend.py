"""The backends of `--apply-mig`: they make the MIG instances of a layout, and restore the GPU when the claim ends."""

import logging
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from gmi_drl.errors import GmiWarning, MachineError, UsageError
from gmi_drl.gmi.claims import claims_folder, descriptor_of
from gmi_drl.gmi.inventory import VisibleGpu, nvml_open, visible_gpus
from gmi_drl.gmi.launcher_watchdog import Watchdog
from gmi_drl.gmi.mig.apply.make import hand_out, make, read, turn_on, wanted_of
from gmi_drl.gmi.mig.apply.record import Record, boot_id, read_record, record_file, write_record
from gmi_drl.gmi.mig.apply.restore import GPU_S, restore
from gmi_drl.gmi.mig.assign import Assignment, no_gpus
from gmi_drl.gmi.mig.driver import MigDriver
from gmi_drl.gmi.mig.instances import MigInstances
from gmi_drl.gmi.process import ProcessBackend, gpus_of
from gmi_drl.hardware.node import Node
from gmi_drl.layout.cut_gpus import CutGpu
from gmi_drl.layout.layout import Device, Layout
from gmi_drl.layout.mig_instances import compute_names, placed

UNDO = "gmi_drl.gmi.mig.apply.restore:restore_all"


class AppliedMig(ProcessBackend):
    """Gives each GMI a GPU instance with all of its SMs, and makes the missing ones.

    It claims each GPU exclusively: no other run may use instances of it meanwhile.
    """

    parts = False

    def __init__(self) -> None:
        super().__init__()
        self._records: dict[str, Record] = {}

    def check(self, node: Node, layout: Layout) -> list[str]:
        """Check cores and GPUs, and that the GPUs have MIG and room for the instances of the layout."""
        reasons = super().check(node, layout) + no_gpus(layout)
        if reasons:
            return reasons
        gpus = visible_gpus()
        return [why for device in layout.devices if (why := self._no_room(device, gpus[device.index]))]

    def _no_room(self, device: Device, gpu: VisibleGpu) -> str:
        """Why a GPU has no room for the instances of a device of the layout; empty if it has."""
        try:
            (compute_names if self.parts else placed)(CutGpu(device.index, gpu.model, device.gmis))
        except UsageError as error:
            return str(error)
        return ""

    @contextmanager
    def held(self, layouts: Sequence[Layout]) -> Iterator[None]:
        """Start a watchdog that restores the GPUs, and note their state before anything is changed."""
        uuids = sorted({uuid for layout in layouts for uuid in gpus_of(layout).values() if uuid})
        for uuid in uuids:
            _finish_earlier(uuid)
        locks = [descriptor_of(f"gpu-{uuid}") for uuid in uuids]
        log = claims_folder() / "mig-watchdog.log"
        self._watchdog = Watchdog(UNDO, log, undo_s=GPU_S * len(uuids), holds=locks)
        try:
            with nvml_open():
                for uuid in uuids:
                    self._note(Record(boot_id(), read(MigDriver(uuid))))
            yield
        except BaseException:  # this error is the one that is reported
            if left := self._watchdog.close():
                warnings.warn("; ".join(left), GmiWarning, stacklevel=1)
            raise
        if left := self._watchdog.close():
            raise MachineError("; ".join(left))

    @contextmanager
    def cut(self, layout: Layout) -> Iterator[MigInstances]:
        """Make the instances of the layout. They stay until the claim ends, as the next cut may want the same ones."""
        given, gpus = Assignment(), gpus_of(layout)
        with nvml_open():
            for device in layout.devices:
                driver = MigDriver(gpus[device.gmis[0].id])
                turn_on(driver)
                wanted = wanted_of(driver, device, parts=self.parts)
                record = self._records[driver.gpu].about_to_make([shape.place for shape in wanted])
                self._note(record)
                state = make(driver, wanted, tell=logging.getLogger(__name__).warning)
                self._note(record.sealed(state))
                given |= hand_out(device.gmis, state, wanted)
        yield MigInstances(layout, self.cores, given)

    def _note(self, record: Record) -> None:
        """Write a record into its file and send it to the watchdog. Called before anything is changed."""
        uuid = record.before.gpu
        write_record(record)
        self._watchdog.note(uuid, record.to_json())
        self._records[uuid] = record

    @staticmethod
    def obstacle(gpu: VisibleGpu, processes: int) -> str:
        """Why the instances of a GPU cannot be changed, with the remedy; empty if they can."""
        if gpu.parent:
            return "is a MIG device that CUDA_VISIBLE_DEVICES names: its GPU may not be changed, leave --apply-mig out"
        if gpu.mig is None:
            return "has no MIG: take another --backend"
        if gpu.mig_pending != gpu.mig:
            turns = "on" if gpu.mig_pending else "off"
            return f"waits for a reset that turns MIG mode {turns} (as root, `nvidia-smi -i {gpu.number} --gpu-reset`)"
        return ""


class AppliedMigParts(AppliedMig):
    """Gives the GMIs of a GPU compute instances of one GPU instance, and makes the missing ones."""

    parts = True


def _finish_earlier(uuid: str) -> None:
    """Restore a GPU after a run that was killed together with its watchdog."""
    record = read_record(uuid)
    if record is not None and (left := restore(record)):
        keep = f"if it shall stay as it is, remove {record_file(uuid)}"
        raise MachineError(f"an earlier run was killed with its watchdog: {'; '.join(left)}\n{keep}")
