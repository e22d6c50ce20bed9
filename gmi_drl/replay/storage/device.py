"""Steps in the memory of a GPU (Parr 2017): a step is copied there once, not each time that it is sampled."""

import threading
from collections.abc import Mapping
from typing import ClassVar

import torch
from torch import Tensor

from gmi_drl.comm.memory.pinned import Upload
from gmi_drl.errors import MachineError, UsageError
from gmi_drl.replay.fields import Signature
from gmi_drl.replay.rows import Rows
from gmi_drl.replay.storage.base import FEWEST_BLOCKS, Storage
from gmi_drl.units import human_bytes

UPDATE_SIZE = 2000
"""Steps that are copied to a GPU at once (section 4 of the paper)."""

_BUFFERS = 2


class DeviceStorage(Storage):
    """Rows on a device. Steps that come from the host are packed there and copied `update_size` at once.

    Steps that are on the device already are written directly.

    Args:
        signature: Of a step.
        steps: Least number of steps.
        longest: Steps of the longest item.
        device: Where the steps lie. On a CPU it does what it does on a GPU.
        fewest_blocks: As in `Storage`.
        update_size: Steps from the host that are copied at once, `flush` copies fewer; None for the paper's 2,000, or
            all steps if there are fewer.

    Raises:
        UsageError: if `update_size` is above `steps`.
        MachineError: if the device has not as much free memory, with the numbers.
    """

    placement: ClassVar[str] = "device"
    is_direct: ClassVar[bool] = False

    def __init__(
        self,
        signature: Signature,
        steps: int,
        *,
        longest: int = 1,
        device: torch.device | str = "cpu",
        fewest_blocks: int = FEWEST_BLOCKS,
        update_size: int | None = None,
    ) -> None:
        super().__init__(signature, steps, longest=longest, device=device, fewest_blocks=fewest_blocks)
        update_size = min(UPDATE_SIZE, self.steps) if update_size is None else update_size
        if not 1 <= update_size <= self.steps:
            raise UsageError(f"update_size is {update_size}, it must be 1 to {self.steps}, the steps of the storage")
        self.update_size = update_size
        self._first = 0
        is_gpu = self.device.type == "cuda"
        self._staging = [_staging(signature, update_size, pinned=is_gpu) for _ in range(_BUFFERS)]
        self._uploads = [Upload() for _ in range(_BUFFERS)]
        self._buffer = 0
        self._lock = threading.RLock()  # of what is pending: whoever samples flushes it

    def _allocate(self) -> dict[str, Tensor]:
        if self.device.type == "cpu":
            return super()._allocate()
        if self.device.type == "cuda":
            free, total = torch.cuda.mem_get_info(self.device)
            if self.bytes > free:
                room = f"{human_bytes(free)} of {human_bytes(total)} are free on {self.device}"
                raise MachineError(
                    f"{self.steps} steps of replay need {human_bytes(self.bytes)}, but {room}: fewer steps"
                )
        return {
            column: torch.zeros(
                self.steps, self.signature.row_bytes(column) // 8, dtype=torch.int64, device=self.device
            )
            for column in self.signature.columns
        }

    def write(self, first: int, fields: Mapping[str, Tensor]) -> None:
        """Write steps from `first` on: at once if they are on the device, else by the staging memory.

        Args:
            first: Place of the first one.
            fields: `[n, *shape]` for each field. From the host: all fields.
        """
        if self.device.type != "cpu" and all(value.device.type == self.device.type for value in fields.values()):
            super().write(first, fields)
            return
        with self._lock:
            self._stage(first, fields)

    def _stage(self, first: int, fields: Mapping[str, Tensor]) -> None:
        count, done = len(next(iter(fields.values()))), 0
        while done < count:
            if self.pending and first + done != self._first + self.pending:
                self.flush()
            if not self.pending:
                self._first = first + done
                self._uploads[self._buffer].wait()
            part = min(count - done, self.update_size - self.pending)
            for name, value in fields.items():
                target = self._staging[self._buffer].fields[name][self.pending : self.pending + part]
                target.copy_(value[done : done + part])
            self.pending += part
            done += part
            if self.pending == self.update_size:
                self.flush()

    def copy(self, source: int, target: int, count: int) -> None:
        """Copy steps to another place, also those that were pending."""
        self.flush()
        super().copy(source, target, count)

    def flush(self) -> None:
        """Start the copy of the pending steps, in order with the current stream."""
        with self._lock:
            if not self.pending:
                return
            staging, upload = self._staging[self._buffer], self._uploads[self._buffer]
            for column, rows in self.rows.words.items():
                upload.start(staging.words[column][: self.pending], rows[self._first : self._first + self.pending])
            self._buffer = (self._buffer + 1) % _BUFFERS
            self.pending = 0

    def _gather(self, column: str, places: Tensor, out: Tensor) -> None:
        super()._gather(column, places.to(self.device, non_blocking=True), out)


def _staging(signature: Signature, steps: int, *, pinned: bool) -> Rows:
    return Rows(
        signature,
        {
            column: torch.zeros(steps, signature.row_bytes(column) // 8, dtype=torch.int64, pin_memory=pinned)
            for column in signature.columns
        },
    )
