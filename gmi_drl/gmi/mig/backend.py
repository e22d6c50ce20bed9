"""The `mig` backends: each GMI gets one of the existing MIG instances."""

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext

from gmi_drl.gmi.claims import Shared
from gmi_drl.gmi.inventory import VisibleGpu, nvml_open, visible_gpus
from gmi_drl.gmi.mig.apply.restore import left_behind
from gmi_drl.gmi.mig.assign import Assignment, assign, no_gpus
from gmi_drl.gmi.mig.busy import in_use
from gmi_drl.gmi.mig.instances import MigInstances
from gmi_drl.gmi.process import ProcessBackend
from gmi_drl.hardware.node import Node
from gmi_drl.layout.layout import Layout


class MigBackend(ProcessBackend):
    """Gives each GMI an existing GPU instance with all of its SMs."""

    parts = False

    def __init__(self) -> None:
        super().__init__()
        self._given: dict[str, Assignment] = {}

    def check(self, node: Node, layout: Layout) -> list[str]:
        """Check cores and GPUs, and choose an instance for each GMI."""
        with nvml_open():  # once for all queries
            gpus = visible_gpus()
            self._given[layout.digest], reasons = assign(layout, gpus, in_use(gpus), parts=self.parts)
            left = [left_behind(gpu.parent or gpu.uuid) for gpu in gpus if reasons]
            return super().check(node, layout) + no_gpus(layout) + reasons + list(filter(None, left))

    def devices(self, layout: Layout) -> list[str]:
        """Each core, each MIG device by its UUID, and as `Shared` their GPUs, which must not be cut again meanwhile."""
        cores = [f"core-{self.cores[core]}" for gmi in layout.gmis for core in gmi.cores]
        return [*cores, *(f"gpu-{uuid}" for uuid in self._given[layout.digest].values()), *_whole_gpus(layout)]

    def cut(self, layout: Layout) -> AbstractContextManager[MigInstances]:
        """Yield the shares; no instance is changed."""
        return nullcontext(MigInstances(layout, self.cores, self._given[layout.digest]))

    @staticmethod
    def obstacle(gpu: VisibleGpu, processes: int) -> str:
        """Why a GPU cannot be cut at all; `assign` reports missing instances."""
        return "has no MIG: take another --backend" if gpu.mig is None else ""


class MigPartsBackend(MigBackend):
    """Gives the GMIs of a GPU compute instances of one GPU instance, which have SMs of their own and share memory."""

    parts = True


def _whole_gpus(layout: Layout) -> Sequence[str]:
    gpus = visible_gpus()
    chosen = [gpus[device.index] for device in layout.devices]
    return [Shared(f"gpu-{gpu.parent or gpu.uuid}") for gpu in chosen]
