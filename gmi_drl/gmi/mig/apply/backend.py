"""`--apply-mig`: cuts GPUs by MIG as a layout says, and restores what was there when the claim ends."""

import logging
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from gmi_drl.errors import GmiWarning, MachineError, UsageError
from gmi_drl.gmi.claims import claims_folder, descriptor_of
from gmi_drl.gmi.inventory import VisibleGpu, nvml_open, visible_gpus
from gmi_drl.gmi.mig.apply.make import hand_out, make, read, turn_on, wanted_of
from gmi_drl.gmi.mig.apply.record import Record, boot_id, read_record, record_file, write_record
from gmi_drl.gmi.mig.apply.restore import GPU_S, restore
from gmi_drl.gmi.mig.assign import Assignment, not_cut
from gmi_drl.gmi.mig.driver import MigDriver
from gmi_drl.gmi.mig.instances import MigInstances
from gmi_drl.gmi.process import ProcessBackend
from gmi_drl.gmi.watchdog import Watchdog
from gmi_drl.hardware.node import Node
from gmi_drl.layout.cut_gpus import CutGpu
from gmi_drl.layout.layout import Device, Layout
from gmi_drl.layout.mig_instances import compute_names, placed

UNDO = "gmi_drl.gmi.mig.apply.restore:restore_all"


class AppliedMig(ProcessBackend):
    """Gives each GMI a GPU instance with all of its SMs, made for it where none is there.

    It claims each GPU alone: nobody may use other instances of it meanwhile.
    """

    parts = False

    def __init__(self) -> None:
        super().__init__()
        self._records: dict[str, Record] = {}

    def check(self, node: Node, layout: Layout) -> list[str]:
        """Besides cores and GPUs: whether these have MIG, and room for what the layout wants."""
        gpus = visible_gpus()
        reasons = super().check(node, layout) + not_cut(layout, gpus, self.obstacle)
        return reasons or [why for device in layout.devices if (why := self._no_room(device, gpus[device.index]))]

    def _no_room(self, device: Device, gpu: VisibleGpu) -> str:
        """Why a GPU cannot hold the instances that a device of a layout wants; empty if it can."""
        try:
            (compute_names if self.parts else placed)(CutGpu(device.index, gpu.model, device.gmis))
        except UsageError as error:
            return str(error)
        return ""

    @contextmanager
    def held(self, layouts: Sequence[Layout]) -> Iterator[None]:
        """A keeper that knows what was there, before anything is changed, and restores it."""
        uuids = sorted({uuid for layout in layouts for uuid in self.gpus_of(layout).values() if uuid})
        for uuid in uuids:
            _finish_earlier(uuid)
        locks = [descriptor_of(f"gpu-{uuid}") for uuid in uuids]
        log = claims_folder() / "mig-keeper.log"
        self._keeper = Watchdog(UNDO, log, undo_s=GPU_S * len(uuids), holds=locks)
        try:
            with nvml_open():
                for uuid in uuids:
                    self._note(Record(boot_id(), read(MigDriver(uuid))))
            yield
        except BaseException:  # it is what is told in the end
            if left := self._keeper.close():
                warnings.warn("; ".join(left), GmiWarning, stacklevel=1)
            raise
        if left := self._keeper.close():
            raise MachineError("; ".join(left))

    @contextmanager
    def cut(self, layout: Layout) -> Iterator[MigInstances]:
        """Make what the layout wants of each GPU. It stays until the claim ends, as the next cut may want the same."""
        given, gpus = Assignment(), self.gpus_of(layout)
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
        """Before anything is changed: the file for a next run, the note for the keeper."""
        uuid = record.before.gpu
        write_record(record)
        self._keeper.note(uuid, record.to_json())
        self._records[uuid] = record

    @staticmethod
    def obstacle(gpu: VisibleGpu, processes: int) -> str:
        """Why a GPU cannot be cut anew, and the remedy; empty if it can."""
        if gpu.parent:
            return "is a MIG device that CUDA_VISIBLE_DEVICES names: its GPU may not be changed, leave --apply-mig out"
        if gpu.mig is None:
            return "has no MIG: take another --backend"
        if gpu.mig_pending != gpu.mig:
            turns = "on" if gpu.mig_pending else "off"
            return f"waits for a reset that turns MIG mode {turns} (as root, `nvidia-smi -i {gpu.number} --gpu-reset`)"
        return ""


class AppliedMigParts(AppliedMig):
    """Gives the GMIs of a GPU compute instances of one GPU instance, made for them where they are not there."""

    parts = True


def _finish_earlier(uuid: str) -> None:
    """Restore what a run has left that was killed with its keeper."""
    record = read_record(uuid)
    if record is not None and (left := restore(record)):
        keep = f"if it shall stay as it is, remove {record_file(uuid)}"
        raise MachineError(f"an earlier run was killed with its keeper: {'; '.join(left)}\n{keep}")
