"""Copies from the host into slots on a device, beside what is computed there. Not yet run on a GPU."""

import torch
from torch import Tensor


class SideCopies:
    """Copies in a stream of their own, in order with the current stream of a GPU as far as one slot is concerned.

    So what computes from a slot waits for its copies and not for those of others, and a copy for who has used its slot
    before and not for what came after. Where the device is no GPU copies are over at once, and nothing waits.

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
        """Copy into a slot, from memory that is pinned or registered; from any other the host waits."""
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
        """Let the current stream wait for the copies into a slot that were begun."""
        if self._stream is not None:
            torch.cuda.current_stream(self._device).wait_event(self._copied[slot])

    def release(self, slot: int) -> None:
        """Let later copies into a slot come after what the current stream was told of it.

        The host waits until the copies have been made: what they were made from may be written again.
        """
        if self._stream is not None:
            self._copied[slot].synchronize()
            self._used[slot].record(torch.cuda.current_stream(self._device))
            self._is_used[slot] = True

    def close(self) -> None:
        """Wait for all of them."""
        if self._stream is not None:
            self._stream.synchronize()
