"""The memory that trials side by side take, and whether more of them fit."""

import math
from collections.abc import Sequence

import psutil

from gmi_drl.gmi.inventory import visible_gpus
from gmi_drl.hardware.host_memory import SPARE_BYTES, available_bytes
from gmi_drl.units import GIB, human_bytes


class Memory:
    """The most bytes that one trial has taken, on the host and on a GPU; made before any has begun."""

    def __init__(self) -> None:
        self._gpus = visible_gpus()
        self._host = self._gpu = 0

    def look(self, pids: Sequence[int]) -> None:
        """See what trials that run now have taken; `pids` are their leaders."""
        self._host = max(self._host, sum(_bytes_of(pid) for pid in pids) // len(pids))
        if self._gpus:
            each = _on_one_gpu(len(pids), len(self._gpus))
            before = {gpu.uuid: gpu.used_bytes for gpu in self._gpus}
            taken = [gpu.used_bytes - before[gpu.uuid] for gpu in visible_gpus() if gpu.uuid in before]
            self._gpu = max(self._gpu, max(taken, default=0) // each)

    def lack(self, number: int) -> str:
        """What a number of trials would need that is not there; empty if they fit."""
        if self._host and number * self._host + SPARE_BYTES > available_bytes():
            return f"{human_bytes(number * self._host)} of memory"
        rooms = [round(gpu.memory_gib * GIB) - gpu.used_bytes for gpu in self._gpus if gpu.memory_gib]
        if rooms and (need := _on_one_gpu(number, len(self._gpus)) * self._gpu) > min(rooms):
            return f"{human_bytes(need)} of a GPU, which has {human_bytes(min(rooms))}"
        return ""


def _on_one_gpu(number: int, gpus: int) -> int:
    """Trials on the GPU that has most of them."""
    return math.ceil(number / gpus)


def _bytes_of(pid: int) -> int:
    """Memory of a process and its descendants, of which those pages count that are theirs alone."""
    try:
        leader = psutil.Process(pid)
        return sum(_own_bytes(process) for process in (leader, *leader.children(recursive=True)))
    except psutil.NoSuchProcess:
        return 0


def _own_bytes(process: psutil.Process) -> int:
    try:
        return int(process.memory_full_info().uss)
    except (psutil.NoSuchProcess, psutil.AccessDenied):
        return 0
