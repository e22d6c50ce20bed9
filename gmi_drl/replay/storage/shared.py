"""Steps in shared memory without a name: processes that get its descriptor map the same rows."""

import mmap
import os
import warnings
from typing import ClassVar
from weakref import finalize

import torch
from torch import Tensor

from gmi_drl.comm.memory.segment import allocate, create_empty, in_pages
from gmi_drl.errors import UsageError
from gmi_drl.replay.fields import Signature
from gmi_drl.replay.rows import Rows
from gmi_drl.replay.storage.base import FEWEST_BLOCKS, Storage


class SharedStorage(Storage):
    """A memfd, gone with its last holder. Only the process that made it leases blocks.

    Args:
        signature: Of a step.
        steps: Least number of steps.
        longest: Steps of the longest item.
        device: As in `Storage`.
        fewest_blocks: As in `Storage`.
        block_bytes: As in `Storage`.
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
        block_bytes: int | None = None,
        descriptor: int | None = None,
    ) -> None:
        self._is_own, self.descriptor = descriptor is None, -1 if descriptor is None else descriptor
        super().__init__(
            signature, steps, longest=longest, device=device, fewest_blocks=fewest_blocks, block_bytes=block_bytes
        )

    def _allocate(self) -> dict[str, Tensor]:
        size = bytes_of_columns(self.signature, self.steps)
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
        return mapped(self.signature, self.steps, self.descriptor)

    def close(self) -> None:
        """Close the descriptor, if this process made it. The memory stays until its last mapping is gone.

        Without it the descriptor is closed with the object.
        """
        if self._is_own:
            self._closing()
            self.descriptor = -1


def bytes_of_columns(signature: Signature, steps: int) -> int:
    """Bytes of shared rows. A column has whole pages, because CUDA registers pages."""
    return sum(in_pages(steps * signature.row_bytes(column)) for column in signature.columns)


def mapped(
    signature: Signature, steps: int, descriptor: int, *, writable: bool = True, at_once: bool = True
) -> dict[str, Tensor]:
    """The rows in shared memory by column, int64 `[steps, row_bytes / 8]`.

    Who writes to what is not writable is ended by SIGSEGV. All pages are mapped `at_once`, or each when it is touched.
    """
    size, access = bytes_of_columns(signature, steps), mmap.PROT_READ | (mmap.PROT_WRITE if writable else 0)
    memory = mmap.mmap(descriptor, size, mmap.MAP_SHARED | (mmap.MAP_POPULATE if at_once else 0), access)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "The given buffer is not writable")  # so it is meant
        words, columns, start = torch.frombuffer(memory, dtype=torch.int64), {}, 0
    for column in signature.columns:
        width = signature.row_bytes(column) // 8
        columns[column] = words[start : start + steps * width].view(steps, width)
        start += in_pages(steps * signature.row_bytes(column)) // 8
    return columns


class MappedStorage(Storage):
    """The rows of another process's storage. It owns no blocks: that process says what may be read and written.

    Args:
        signature: Of a step.
        steps: Of the storage, exactly.
        longest: Steps of the longest item.
        descriptor: Of the memory. The caller closes it.
        writable: Whether rows are written, too.
        at_once: Whether all pages are mapped now, and not each when it is touched.
    """

    def __init__(
        self,
        signature: Signature,
        steps: int,
        longest: int,
        descriptor: int,
        *,
        writable: bool = True,
        at_once: bool = True,
    ) -> None:
        self.signature, self.steps, self.longest, self.device = signature, steps, longest, torch.device("cpu")
        self.rows = Rows(signature, mapped(signature, steps, descriptor, writable=writable, at_once=at_once))
