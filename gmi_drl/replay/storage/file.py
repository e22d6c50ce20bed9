"""Steps in a file that is mapped into memory: more than the memory holds, and there again after a restart."""

import mmap
import os
from pathlib import Path
from typing import ClassVar

import torch
from torch import Tensor

from gmi_drl.comm.memory.segment import in_pages
from gmi_drl.errors import MachineError
from gmi_drl.replay.fields import Signature
from gmi_drl.replay.storage.base import FEWEST_BLOCKS, Storage
from gmi_drl.replay.storage.file_header import HEADER_BYTES, Facts, check_file, create_file
from gmi_drl.units import human_bytes

FORMAT = "gmi-drl/replay-rows/1"


class FileStorage(Storage):
    """A mapped file whose room on the disk is reserved. It is opened again by its path.

    Args:
        signature: Of a step.
        steps: Least number of steps.
        longest: Steps of the longest item.
        device: As in `Storage`.
        fewest_blocks: As in `Storage`.
        path: Of the file; a new one is made if it is not there.
        is_writable: Whether what is written gets into the file. If not, the file may be read-only, and stays as it is.

    Attributes:
        was_there: Whether the file was there, with its rows. Which of them are items a checkpoint says.

    Raises:
        UsageError: if a file is there that has another signature, number of steps or longest item.
        MachineError: if the disk has not as much room, or the file cannot be written.
    """

    placement: ClassVar[str] = "file"

    def __init__(
        self,
        signature: Signature,
        steps: int,
        *,
        path: Path,
        longest: int = 1,
        device: torch.device | str = "cpu",
        fewest_blocks: int = FEWEST_BLOCKS,
        is_writable: bool = True,
    ) -> None:
        self.path, self.was_there, self._is_writable = path, path.exists(), is_writable
        super().__init__(signature, steps, longest=longest, device=device, fewest_blocks=fewest_blocks)

    def _allocate(self) -> dict[str, Tensor]:
        size = HEADER_BYTES + sum(in_pages(self._column_bytes(column)) for column in self.signature.columns)
        try:
            facts: Facts = {"format": FORMAT, "steps": self.steps, "longest": self.longest}
            if self.was_there:
                check_file(self.path, self.signature, facts, size)
            else:  # a full disk is an error here, not a signal later
                create_file(self.path, self.signature, facts, size, os.posix_fallocate)
            access = mmap.ACCESS_WRITE if self._is_writable else mmap.ACCESS_COPY
            with self.path.open("r+b" if self._is_writable else "rb") as file:
                memory = mmap.mmap(file.fileno(), size, access=access)
        except OSError as error:
            raise MachineError(f"{self.path}: {human_bytes(size)} of replay: {error.strerror}") from None
        columns, start = {}, HEADER_BYTES
        for column in self.signature.columns:
            width = self.signature.row_bytes(column) // 8
            words = torch.frombuffer(memory, dtype=torch.int64, offset=start, count=self.steps * width)
            columns[column] = words.view(self.steps, width)
            start += in_pages(self._column_bytes(column))
        return columns

    def _column_bytes(self, column: str) -> int:
        return self.steps * self.signature.row_bytes(column)
