"""GMIs that see one MIG device each."""

import time
from collections.abc import Mapping, Sequence

from gmi_drl.errors import LayoutMismatchError
from gmi_drl.gmi.inventory import nvml_open
from gmi_drl.gmi.mig.busy import hides_processes, pids_of
from gmi_drl.gmi.process import ProcessInstances
from gmi_drl.layout.layout import Layout

LISTED_S = 5.0
"""Deadline for NVML to list a process that has created its context."""


class MigInstances(ProcessInstances):
    """The cores and the MIG device of each GMI.

    Args:
        layout: The layout of the GMIs.
        cores: CPU numbers, by the layout's core indices.
        device_of: The UUID of each GMI's MIG device, as in its CUDA_VISIBLE_DEVICES.
    """

    def __init__(self, layout: Layout, cores: Sequence[int], device_of: Mapping[int, str]) -> None:
        super().__init__(layout, cores, device_of)

    def prove_on_device(self, gmi_id: int, pid: int) -> None:
        """Check that NVML lists the process on its MIG device. In a container NVML may list none, or other numbers."""
        deadline = time.monotonic() + LISTED_S
        while not hides_processes() and pid not in (there := _pids(self.gpu_of[gmi_id])):
            if time.monotonic() >= deadline:
                listed = ", ".join(map(str, there)) or "nobody"
                text = f"GMI {gmi_id} (process {pid}) does not compute on its MIG device {self.gpu_of[gmi_id]}"
                raise LayoutMismatchError(f"{text}, where NVML lists {listed}")
            time.sleep(0.1)


def _pids(uuid: str) -> list[int]:
    with nvml_open() as nvml:
        return pids_of(nvml, uuid)
