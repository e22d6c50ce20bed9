"""The memory of a server that has Reverb's interface: pages that are taken when they are first written to."""

import mmap

import torch
from torch import Tensor

from gmi_drl.errors import UsageError
from gmi_drl.hardware.host_memory import check_available
from gmi_drl.replay.blocks import Blocks
from gmi_drl.replay.items import LONGEST
from gmi_drl.replay.reverb.layout import CELL_BYTES, CELLS
from gmi_drl.replay.storage import Storage


class CellStorage(Storage):
    """Cells of any items, each of which lies in one block. Blocks that became free last are used again first.

    Args:
        memory_bytes: In all, at least.
        item_bytes: Of the largest item: a block has as many.

    Raises:
        UsageError: if there would be less than two blocks.
        MachineError: if there is not as much memory.
    """

    def __init__(self, memory_bytes: int, item_bytes: int) -> None:
        cells = -(-item_bytes // CELL_BYTES)
        if not 1 <= cells <= LONGEST or memory_bytes < 2 * item_bytes:
            most = f"items have 1 to {LONGEST * CELL_BYTES} bytes, at most half of the memory"
            raise UsageError(f"item_bytes {item_bytes} and memory_bytes {memory_bytes}: {most}")
        super().__init__(CELLS, -(-memory_bytes // CELL_BYTES), longest=cells)

    def _divide(self, steps: int, fewest_blocks: int) -> Blocks:
        return Blocks(-(-steps // self.longest), self.longest, newest_first=True)

    def _allocate(self) -> dict[str, Tensor]:
        check_available(self.bytes, "the items of a replay server", "give it less, Server(..., memory_bytes=...)")
        memory = mmap.mmap(-1, self.bytes)
        if hasattr(mmap, "MADV_HUGEPAGE"):  # a fault for 2 MiB, in place of 512
            memory.madvise(mmap.MADV_HUGEPAGE)
        return {"cell": torch.frombuffer(memory, dtype=torch.int64).view(self.steps, CELL_BYTES // 8)}
