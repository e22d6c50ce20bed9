"""Steps that are kept compressed, by the standard library's zlib. For images, whose steps are alike."""

import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar

import torch
from torch import Tensor

from gmi_drl.hardware.host_memory import check_available
from gmi_drl.replay.fields import Signature
from gmi_drl.replay.rows import Rows
from gmi_drl.replay.storage.base import FEWEST_BLOCKS, Storage
from gmi_drl.replay.storage.coded_blocks import CodedBlocks, CodedFile

LEVEL = 1
"""Of zlib: the fastest. Atari frames need 98 to 99 % less memory already."""


class CodecStorage(Storage):
    """Blocks that are written to are raw; complete ones are compressed, and decoded once for a gather.

    Args:
        signature: Of a step.
        steps: Least number of steps.
        longest: Steps of the longest item.
        device: As in `Storage`.
        fewest_blocks: As in `Storage`.
        differences: Whether steps are compressed as differences to the ones before, byte by byte.
    """

    is_direct: ClassVar[bool] = False
    block_bytes: ClassVar[int] = 256 * 1024  # a gather decodes whole blocks

    def __init__(
        self,
        signature: Signature,
        steps: int,
        *,
        longest: int = 1,
        device: torch.device | str = "cpu",
        fewest_blocks: int = FEWEST_BLOCKS,
        differences: bool = False,
    ) -> None:
        self._differences = differences
        self._raw: dict[int, Rows] = {}
        self._coded: CodedBlocks = CodedBlocks()
        super().__init__(signature, steps, longest=longest, device=device, fewest_blocks=fewest_blocks)

    def _allocate(self) -> dict[str, Tensor]:
        """No memory yet: a block gets it when it is written to."""
        check_available(self._block_bytes, f"{self.blocks.block_steps} steps of replay", "use shorter items")
        return {}

    @property
    def _block_bytes(self) -> int:
        return self.blocks.block_steps * self.signature.step_bytes

    def write(self, first: int, fields: Mapping[str, Tensor]) -> None:
        """Write steps from `first` on, all within one block."""
        block, start = divmod(first, self.blocks.block_steps)
        if block not in self._raw:
            self._raw[block] = Rows.empty(self.signature, (self.blocks.block_steps,))
            self._coded.drop(block)
        for name, value in fields.items():
            self._raw[block].fields[name][start : start + len(value)].copy_(value)

    def copy(self, source: int, target: int, count: int) -> None:
        """Copy steps to another place, all within one block each."""
        copied = self.gather(torch.arange(source, source + count)).fields
        self.write(target, {name: value[:, 0] for name, value in copied.items()})

    def seal(self, block: int) -> None:
        """Compress a block."""
        self._coded.put(block, {column: self._encoded(words) for column, words in self._raw[block].words.items()})
        del self._raw[block]

    def read_blocks(self, blocks: Tensor, columns: tuple[str, ...] | None = None) -> dict[str, Tensor]:
        """The rows of blocks, decoded."""
        empty = Rows.empty(self.signature, (0,), columns=columns).words
        return {
            column: torch.cat([none, *(self._block(block, column) for block in blocks.tolist())])
            for column, none in empty.items()
        }

    def load_blocks(self, blocks: Tensor, rows: Mapping[str, Tensor]) -> None:
        """Write what `read_blocks` has returned, and compress what nobody writes to."""
        size = self.blocks.block_steps
        for block in range(self.blocks.count):
            self._coded.drop(block)
        self._raw = {
            block: Rows(
                self.signature,
                {column: words[number * size : (number + 1) * size].clone() for column, words in rows.items()},
            )
            for number, block in enumerate(blocks.tolist())
        }
        holders = self.blocks.state_dict()["holders"]
        for block in blocks[holders[blocks] < 0].tolist():
            self.seal(block)

    def info(self) -> dict[str, float]:
        """Bytes that are used now, and `saved`, the part that compression saves of complete blocks."""
        sizes = self._coded.sizes()
        coded, raw = sum(sizes), len(sizes) * self._block_bytes
        used = coded + len(self._raw) * self._block_bytes
        return super().info() | {"bytes": used, "saved": 1 - coded / raw if raw else 0.0}

    def _gather(self, column: str, places: Tensor, out: Tensor) -> None:
        blocks = self.blocks.block_of(places)
        for block in torch.unique(blocks).tolist():
            chosen = (blocks == block).nonzero().flatten()
            out[chosen] = self._block(block, column)[places[chosen] - block * self.blocks.block_steps]

    def _block(self, block: int, column: str) -> Tensor:
        """The rows of a block, decoded if it is complete; zeros if nothing was written to it."""
        if (raw := self._raw.get(block)) is not None:
            return raw.words[column]
        coded = self._coded.get(block, column)
        if coded is None:
            return torch.zeros(self.blocks.block_steps, self.signature.row_bytes(column) // 8, dtype=torch.int64)
        read = torch.frombuffer(bytearray(zlib.decompress(coded)), dtype=torch.uint8)
        rows = read.view(self.blocks.block_steps, -1)
        if self._differences:
            rows = rows.cumsum(0, dtype=torch.uint8)  # differences of bytes wrap around, and so do their sums
        return rows.view(torch.int64)

    def _encoded(self, words: Tensor) -> bytes:
        rows = words.view(torch.uint8)
        if self._differences:
            rows = torch.cat((rows[:1], rows[1:] - rows[:-1]))
        return zlib.compress(rows.numpy().tobytes(), LEVEL)


class CodecFileStorage(CodecStorage):
    """Complete blocks are in a file, compressed; it is opened again by its path. Those that are written to are not yet.

    Args:
        signature: Of a step.
        steps: Least number of steps.
        path: Of the file; a new one is made if it is not there.
        longest: Steps of the longest item.
        device: As in `Storage`.
        fewest_blocks: As in `Storage`.
        differences: As in `CodecStorage`.

    Attributes:
        was_there: Whether the file was there, with its blocks. Which of their steps are items a checkpoint says.

    Raises:
        UsageError: if a file is there that has another signature, other sizes or another codec.
        MachineError: if it cannot be written; also by `seal`, where the disk is full: then the block stays in memory.
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
        differences: bool = False,
    ) -> None:
        super().__init__(
            signature, steps, longest=longest, device=device, fewest_blocks=fewest_blocks, differences=differences
        )
        facts = {"steps": self.steps, "longest": longest, "differences": int(differences)}
        self._coded = file = CodedFile(path, signature, facts, self.blocks.count, self.blocks.block_steps)
        self.was_there = file.was_there

    def close(self) -> None:
        """Write what was not complete, and close the file."""
        for block in list(self._raw):
            self.seal(block)
        self._coded.close()
