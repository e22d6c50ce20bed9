"""Copies from the host into slots on a device, in a stream of their own."""

import torch
from torch import Tensor


class SideCopies:
    """Copies in their own CUDA stream, ordered with the GPU's current stream for each slot on its own.

    A computation waits for the copies into its slot, not for those into others. A copy into a slot waits for the
    earlier uses of that slot, not for later launches. If the device is no GPU, copies are done at once and nothing
    waits.

    Args:
        device: Where the slots are.
        slots: How many.
    """

    def __init__(self, device: torch.device, slots: int) -> None:
        self._device, self._stream = device, None
        if device.type != "cuda":
            return
        self._stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
        self._stream.wait_stream(torch.cuda.current_stream(device))  # which may still use what was freed for the slots
        self._copied, self._used = (
            [torch.cuda.Event() for _ in range(slots)]  # type: ignore[no-untyped-call]
            for _ in range(2)
        )
        self._is_used = [False] * slots

    def start(self, slot: int, source: Tensor, target: Tensor) -> None:
        """Copy into a slot, from pinned or registered memory; from any other memory the host waits for the copy."""
        if self._stream is None:
            target.copy_(source, non_blocking=True)
            return
        if self._is_used[slot]:
            self._is_used[slot] = False
            self._stream.wait_event(self._used[slot])
        with torch.cuda.stream(self._stream):
            target.copy_(source, non_blocking=True)
        self._copied[slot].record(self._stream)

    def use(self, slot: int) -> None:
        """Make the current stream wait for the copies into a slot that were started."""
        if self._stream is not None:
            torch.cuda.current_stream(self._device).wait_event(self._copied[slot])

    def release(self, slot: int) -> None:
        """Order later copies into a slot after all that the current stream was given so far.

        The host waits until the copies into the slot are done: their source may be written again.
        """
        if self._stream is not None:
            self._copied[slot].synchronize()
            self._used[slot].record(torch.cuda.current_stream(self._device))
            self._is_used[slot] = True

    def close(self) -> None:
        """Wait for all copies."""
        if self._stream is not None:
            self._stream.synchronize()
