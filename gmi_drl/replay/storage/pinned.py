"""Steps in pinned memory of the host, which a GPU gathers from without a copy in between (GEAR 4.3)."""

from types import SimpleNamespace
from typing import ClassVar
from weakref import finalize

import torch
from torch import Tensor

from gmi_drl.comm.memory.pinned import try_to_register, unregister
from gmi_drl.errors import MachineError, UsageError
from gmi_drl.replay.fields import Signature
from gmi_drl.replay.storage.base import FEWEST_BLOCKS
from gmi_drl.replay.storage.shared import SharedStorage


class PinnedStorage(SharedStorage):
    """Shared memory that is registered with CUDA; `gather` on a GPU reads it over the link.

    Args:
        signature: Of a step.
        steps: Least number of steps.
        longest: Steps of the longest item.
        device: A GPU.
        fewest_blocks: As in `Storage`.
        descriptor: As in `SharedStorage`.

    Raises:
        UsageError: if the device is no GPU.
        MachineError: also if CUDA does not register memory of this host.
    """

    placement: ClassVar[str] = "pinned"

    def __init__(
        self,
        signature: Signature,
        steps: int,
        *,
        longest: int = 1,
        device: torch.device | str = "cuda",
        fewest_blocks: int = FEWEST_BLOCKS,
        descriptor: int | None = None,
    ) -> None:
        if torch.device(device).type != "cuda":
            raise UsageError(f"the placement 'pinned' is read by a GPU, not by {device}: take 'cpu' or 'shared'")
        super().__init__(
            signature, steps, longest=longest, device=device, fewest_blocks=fewest_blocks, descriptor=descriptor
        )
        self._on_gpu: dict[str, Tensor] = {}
        self._unregistering: list[finalize[..., PinnedStorage]] = []
        self._gathered: torch.cuda.Event | None = None
        for column, rows in self.rows.words.items():
            if refused := try_to_register(rows):
                self.close()
                raise MachineError(f"{refused}: take the placement 'shared' or 'device'")
            self._unregistering.append(finalize(self, unregister, rows))
            self._unregistering[-1].atexit = False  # then the driver may be gone, and the memory goes anyway
            self._on_gpu[column] = _seen_by_gpu(rows, self.device)

    def _gather(self, column: str, places: Tensor, out: Tensor) -> None:
        torch.index_select(self._on_gpu[column], 0, places.to(self.device, non_blocking=True), out=out)
        self._gathered = self._queued()

    def end_reading(self, ticket: int) -> None:
        """End a reading when the GPU has gathered what was queued for it: `gather` returns before."""
        self.blocks.end_reading_when(self._queued().query, ticket)

    def await_gathers(self) -> None:
        """Wait until the GPU has read what `gather` was called for."""
        if self._gathered is not None:
            self._gathered.synchronize()

    def _queued(self) -> torch.cuda.Event:
        """An event that comes when all that is queued now is done."""
        event = torch.cuda.Event()  # type: ignore[no-untyped-call]
        event.record(torch.cuda.current_stream(self.device))
        return event

    def close(self) -> None:
        """Unregister the memory, and close its descriptor. Without it both are done with the object."""
        self._on_gpu.clear()
        for unregistering in self._unregistering:
            unregistering()
        super().close()


def _seen_by_gpu(rows: Tensor, device: torch.device) -> Tensor:
    """The same memory as a tensor of the GPU: its address there is the host's."""
    facts = {"shape": tuple(rows.shape), "typestr": "<i8", "data": (rows.data_ptr(), False), "version": 3}
    return torch.as_tensor(SimpleNamespace(__cuda_array_interface__=facts), device=device)
