"""Where compressed blocks of steps are: in memory, or in a file."""

import os
from collections.abc import Mapping
from pathlib import Path
from weakref import finalize

import torch

from gmi_drl.errors import MachineError
from gmi_drl.replay.fields import Signature
from gmi_drl.replay.storage.file_header import HEADER_BYTES, check_file, create_file


class CodedBlocks:
    """Compressed blocks in memory, by column."""

    def __init__(self) -> None:
        self._blocks: dict[int, dict[str, bytes]] = {}

    def put(self, block: int, columns: Mapping[str, bytes]) -> None:
        """Keep a block, in place of what was there."""
        self._blocks[block] = dict(columns)

    def get(self, block: int, column: str) -> bytes | None:
        """A column of a block; None if it is not there."""
        found = self._blocks.get(block)
        return None if found is None else found[column]

    def drop(self, block: int) -> None:
        """Forget a block, if it is there."""
        self._blocks.pop(block, None)

    def sizes(self) -> list[int]:
        """Bytes of each block that is there."""
        return [sum(map(len, columns.values())) for columns in list(self._blocks.values())]

    def close(self) -> None:
        """End its use."""


FORMAT = "gmi-drl/replay-blocks/1"

_INT64 = 8


class CodedFile(CodedBlocks):
    """Compressed blocks in a file, each in a place of its own that is large enough for what does not become smaller.

    The file is sparse: the disk gives room when a block is written, as much as it has compressed. Behind the header are
    the bytes of each block and column, int64 `[blocks, columns]`, 0 for a block that is not there; then the places.

    Args:
        path: Of the file; a new one is made if it is not there.
        signature: Of a step.
        facts: What else must be the same where it is opened again.
        blocks: How many.
        block_steps: Steps of each.

    Attributes:
        was_there: Whether the file was there.

    Raises:
        UsageError: if the file is of another signature, or other facts.
        MachineError: if it cannot be read or written.
    """

    def __init__(
        self, path: Path, signature: Signature, facts: Mapping[str, str | int], blocks: int, block_steps: int
    ) -> None:
        self._path, self.was_there, self._columns = path, path.exists(), signature.columns
        raw = [block_steps * signature.row_bytes(column) for column in self._columns]
        rooms = [size + size // 8 + 1024 for size in raw]  # what cannot be compressed becomes larger
        self._starts, self._place = [sum(rooms[:number]) for number in range(len(rooms))], sum(rooms)
        self._lengths = torch.zeros(blocks, len(rooms), dtype=torch.int64)
        self._first = HEADER_BYTES + self._lengths.nbytes
        size, facts = self._first + blocks * self._place, {"format": FORMAT, **facts}
        try:
            if self.was_there:
                check_file(path, signature, facts, size)
            else:
                create_file(path, signature, facts, size, lambda file, _, size: os.truncate(file, size))
            self._file = os.open(path, os.O_RDWR | os.O_CLOEXEC)
            self._closing = finalize(self, os.close, self._file)
            index = os.pread(self._file, self._lengths.nbytes, HEADER_BYTES)
        except OSError as error:
            raise MachineError(f"{path}: compressed replay: {error.strerror}") from None
        self._lengths.copy_(torch.frombuffer(bytearray(index), dtype=torch.int64).view_as(self._lengths))

    def put(self, block: int, columns: Mapping[str, bytes]) -> None:
        """See `CodedBlocks`.

        Raises:
            MachineError: if the disk has no room; then the block is not there.
        """
        self.drop(block)
        for number, column in enumerate(self._columns):
            self._write(columns[column], self._offset(block, number))
        self._note(block, [len(columns[column]) for column in self._columns])

    def get(self, block: int, column: str) -> bytes | None:
        """See `CodedBlocks`."""
        number = self._columns.index(column)
        length = int(self._lengths[block, number])
        return os.pread(self._file, length, self._offset(block, number)) if length else None

    def drop(self, block: int) -> None:
        """See `CodedBlocks`."""
        if self._lengths[block].any():
            self._note(block, [0] * len(self._columns))

    def sizes(self) -> list[int]:
        """See `CodedBlocks`."""
        return [size for size in self._lengths.sum(1).tolist() if size]

    def close(self) -> None:
        """Close the file; without it, it is closed with the object."""
        self._closing()

    def _offset(self, block: int, number: int) -> int:
        return self._first + block * self._place + self._starts[number]

    def _note(self, block: int, lengths: list[int]) -> None:
        self._lengths[block] = torch.tensor(lengths)
        self._write(self._lengths[block].numpy().tobytes(), HEADER_BYTES + block * len(lengths) * _INT64)

    def _write(self, content: bytes, offset: int) -> None:
        try:
            done = 0
            while done < len(content):
                done += os.pwrite(self._file, content[done:], offset + done)
        except OSError as error:
            raise MachineError(f"{self._path}: a block of replay cannot be written: {error.strerror}") from None
