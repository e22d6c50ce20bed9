"""Steps in shared memory without a name: processes that get its descriptor map the same rows."""

import mmap
import os
from typing import ClassVar
from weakref import finalize

import torch
from torch import Tensor

from gmi_drl.comm.memory.segment import allocate, create_empty, in_pages
from gmi_drl.errors import UsageError
from gmi_drl.replay.fields import Signature
from gmi_drl.replay.storage.base import FEWEST_BLOCKS, Storage


class SharedStorage(Storage):
    """A memfd, gone with its last holder. Only the process that made it leases blocks.

    Args:
        signature: Of a step.
        steps: Least number of steps.
        longest: Steps of the longest item.
        device: As in `Storage`.
        fewest_blocks: As in `Storage`.
        descriptor: Of a storage of the same signature, steps and longest, which another process has made; None makes
            one. The caller closes it.

    Attributes:
        descriptor: For other processes.

    Raises:
        UsageError: also if the descriptor's memory has another size.
    """

    placement: ClassVar[str] = "shared"

    def __init__(
        self,
        signature: Signature,
        steps: int,
        *,
        longest: int = 1,
        device: torch.device | str = "cpu",
        fewest_blocks: int = FEWEST_BLOCKS,
        descriptor: int | None = None,
    ) -> None:
        self._is_own, self.descriptor = descriptor is None, -1 if descriptor is None else descriptor
        super().__init__(signature, steps, longest=longest, device=device, fewest_blocks=fewest_blocks)

    def _allocate(self) -> dict[str, Tensor]:
        size = sum(self._column_bytes(column) for column in self.signature.columns)
        if self._is_own:
            self.descriptor = create_empty("gmi-drl-replay")
            self._closing = finalize(self, os.close, self.descriptor)
            try:
                allocate(self.descriptor, 0, size, f"{self.steps} steps of replay", "use fewer steps")
            except BaseException:
                self.close()
                raise
        elif (found := os.fstat(self.descriptor).st_size) != size:
            raise UsageError(f"the shared memory has {found} bytes, {self.steps} steps of this signature have {size}")
        memory = mmap.mmap(self.descriptor, size, mmap.MAP_SHARED | mmap.MAP_POPULATE)
        return self._columns(torch.frombuffer(memory, dtype=torch.int64))

    def _column_bytes(self, column: str) -> int:
        """Bytes of a column: whole pages, because CUDA registers pages."""
        return in_pages(self.steps * self.signature.row_bytes(column))

    def _columns(self, words: Tensor) -> dict[str, Tensor]:
        columns, start = {}, 0
        for column in self.signature.columns:
            width, end = self.signature.row_bytes(column) // 8, start + self._column_bytes(column) // 8
            columns[column] = words[start : start + self.steps * width].view(self.steps, width)
            start = end
        return columns

    def close(self) -> None:
        """Close the descriptor, if this process made it. The memory stays until its last mapping is gone.

        Without it the descriptor is closed with the object.
        """
        if self._is_own:
            self._closing()
            self.descriptor = -1
