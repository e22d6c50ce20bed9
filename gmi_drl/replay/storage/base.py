"""What all storages have in common: packed rows by column, written as stretches and gathered in batches."""

from collections.abc import Mapping
from typing import ClassVar

import torch
from torch import Tensor

from gmi_drl.errors import UsageError
from gmi_drl.hardware.host_memory import check_available
from gmi_drl.replay.blocks import BLOCK_BYTES, ITEMS_PER_BLOCK, Blocks
from gmi_drl.replay.fields import Signature
from gmi_drl.replay.indices import zeros
from gmi_drl.replay.rows import Rows

FEWEST_BLOCKS = 16
"""A small storage has smaller blocks, so that it has as many."""

BLOCK_FOR_EACH = 0
"""As `fewest_blocks`: each of the longest items has a block of its own."""


class Storage:
    """Rows of steps in one memory. Subclasses provide the memory.

    Threads: rows that nobody writes may be gathered at any time; who writes holds their block (`Blocks`).

    Args:
        signature: Of a step.
        steps: Least number of steps.
        longest: Steps of the longest item.
        device: Where `gather` puts what it gathers.
        fewest_blocks: Each stream that writes has one, so a small storage with many streams needs more; or
            `BLOCK_FOR_EACH`.
        block_bytes: Of a block, unless there would be few, or 8 of the longest items need more; None for the class's.

    Attributes:
        blocks: Who needs which block.
        steps: Steps that there is room for: whole blocks.
        rows: All steps.
        tables: How many that are not closed reference them.
        pending: Steps that wait on the host to be copied to a device.

    Raises:
        UsageError: if a number is not positive.
        MachineError: if there is not as much memory, with the numbers.
    """

    placement: ClassVar[str] = "cpu"
    is_direct: ClassVar[bool] = True
    """Whether `rows` are all there is: who holds a block may write to them."""

    block_bytes: ClassVar[int] = BLOCK_BYTES

    def __init__(
        self,
        signature: Signature,
        steps: int,
        *,
        longest: int = 1,
        device: torch.device | str = "cpu",
        fewest_blocks: int = FEWEST_BLOCKS,
        block_bytes: int | None = None,
    ) -> None:
        if steps < 1 or longest < 1:
            raise UsageError(f"a storage needs 1 step and items of 1 step at least, not {steps} and {longest}")
        self.signature, self.longest, self.device = signature, longest, torch.device(device)
        self._most_of_block = block_bytes or self.block_bytes
        self.blocks = self._divide(steps, fewest_blocks)
        self.steps = self.blocks.count * self.blocks.block_steps
        self.bytes = self.steps * signature.step_bytes
        self.rows = Rows(signature, self._allocate())
        self.tables = self.pending = 0

    def _divide(self, steps: int, fewest_blocks: int) -> Blocks:
        """Blocks for so many steps at least."""
        block_steps = steps_of_block(self.signature, steps, self.longest, fewest_blocks, self._most_of_block)
        return Blocks(-(-steps // block_steps), block_steps)

    def _allocate(self) -> dict[str, Tensor]:
        """Zeroed memory for each column, int64 `[steps, row_bytes / 8]`, every page of it taken."""
        check_available(self.bytes, f"{self.steps} steps of replay", "use fewer steps, or another placement")
        return {column: zeros(self.steps, self.signature.row_bytes(column) // 8) for column in self.signature.columns}

    def write(self, first: int, fields: Mapping[str, Tensor]) -> None:
        """Write steps from `first` on.

        Args:
            first: Place of the first one.
            fields: `[n, *shape]` for each field that is written, on any device.
        """
        self.rows.write(first, fields)

    def copy(self, source: int, target: int, count: int) -> None:
        """Copy steps to another place."""
        for rows in self.rows.words.values():
            rows[target : target + count] = rows[source : source + count]

    def gather(
        self,
        first: Tensor,
        length: int | Tensor = 1,
        *,
        longest: int | None = None,
        columns: tuple[str, ...] | None = None,
        out: Rows | None = None,
        stride: int = 1,
    ) -> Rows:
        """Copy the stretches of a batch.

        Args:
            first: Places of their first steps, int64 `[B]`.
            length: Steps of all, or of each `[B]`.
            longest: T, where `length` is a tensor; None for its maximum.
            columns: Which; None for all.
            out: Rows of an earlier call, which are written over if they have these sizes and columns.
            stride: Distance of a step to the next one.

        Returns:
            Rows `[B, T]` on `device`, zeros from an item's length on.
        """
        steps = length if isinstance(length, int) else longest or int(length.max())
        names = columns or self.signature.columns
        if out is None or not out.fits((len(first), steps), names):
            out = Rows.empty(self.signature, (len(first), steps), device=self.device, columns=names)
        are_whole = steps > 1 and stride == 1 and self.has_stretches and len(first) > 0
        are_whole = are_whole and int(first.numpy().max()) <= self.steps - steps
        places = first
        if steps > 1 and not are_whole:
            reach = torch.arange(0, steps * stride, stride, device=first.device)
            places = (first[:, None] + reach).clamp_(max=self.steps - 1).flatten()
        for name in names:
            rows = out.words[name]
            if are_whole:
                self.gather_stretches(name, first, rows)
            else:
                self._gather(name, places, rows.view(-1, rows.shape[-1]))
            if isinstance(length, Tensor):
                past = torch.arange(steps, device=length.device) >= length[:, None]
                rows.masked_fill_(past.to(rows.device)[..., None], 0)
        return out

    @property
    def has_stretches(self) -> bool:
        """Whether `gather_stretches` can be called: rows lie as they are in the host's memory."""
        return self.is_direct and self.device.type == "cpu"

    def _gather(self, column: str, places: Tensor, out: Tensor) -> None:
        """Copy the rows at `places [M]` of a column to `out [M, words]`."""
        torch.index_select(self.rows.words[column], 0, places, out=out)

    def gather_stretches(self, column: str, first: Tensor, out: Tensor) -> None:
        """Copy as many rows of a column as `out [B, T, words]` has, from each of `first [B]` on: one copy of each.

        The storage `has_stretches`, and none of these reaches past its end.
        """
        rows, (count, steps, words) = self.rows.words[column], out.shape
        stretches = rows.as_strided((self.steps - steps + 1, steps * words), (words, 1), rows.storage_offset())
        torch.index_select(stretches, 0, first, out=out.view(count, steps * words))

    def end_reading(self, ticket: int) -> None:
        """End what `blocks.begin_reading` began, after the last `gather` for it."""
        self.blocks.end_reading(ticket)

    def await_gathers(self) -> None:
        """Wait until nothing reads rows any more for a `gather` that has returned."""

    def seal(self, block: int) -> None:
        """A block is complete: nobody writes to it until it is leased again."""

    def read_blocks(self, blocks: Tensor, columns: tuple[str, ...] | None = None) -> dict[str, Tensor]:
        """The rows of blocks `[n]` by column, int64 `[n x block_steps, words]`; of some columns or of all."""
        size = self.blocks.block_steps
        if len(blocks) == self.blocks.count:
            return {column: self.rows.words[column] for column in columns or self.signature.columns}
        return {
            column: words.view(-1, size, words.shape[1])[blocks.to(words.device)].flatten(0, 1)
            for column, words in self.rows.words.items()
            if columns is None or column in columns
        }

    def load_blocks(self, blocks: Tensor, rows: Mapping[str, Tensor]) -> None:
        """Write what `read_blocks` has returned."""
        size = self.blocks.block_steps
        for column, words in self.rows.words.items():
            target = words.view(-1, size, words.shape[1])
            target[blocks.to(words.device)] = rows[column].view(-1, size, words.shape[1]).to(words.device)

    def flush(self) -> None:
        """Make all that was written visible to `gather`."""

    def info(self) -> dict[str, float]:
        """Bytes, and what else there is to tell in numbers."""
        return {"bytes": self.bytes, "steps": self.steps, "free_blocks": self.blocks.free, "blocks": self.blocks.count}

    def close(self) -> None:
        """Free what is not freed with the object."""


def steps_of_block(
    signature: Signature,
    steps: int,
    longest: int,
    fewest_blocks: int = FEWEST_BLOCKS,
    block_bytes: int = BLOCK_BYTES,
) -> int:
    """Steps of a block: so many bytes, or less where there would be few blocks, but 8 of the longest items."""
    if fewest_blocks == BLOCK_FOR_EACH:
        return longest
    by_bytes = min(block_bytes // signature.step_bytes, steps // fewest_blocks)
    return max(by_bytes, ITEMS_PER_BLOCK * longest)
