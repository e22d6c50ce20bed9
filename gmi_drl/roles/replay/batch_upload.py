"""Copies batches from the host to a device, for which the host does not wait."""

from collections.abc import Mapping

import torch
from torch import Tensor

from gmi_drl.comm.memory.pinned import Upload


class BatchUpload:
    """Copies batches by pinned memory of its own, so that the host goes on while a GPU gets them.

    Args:
        device: Of the targets. On a CPU they are complete when `start` returns.
    """

    def __init__(self, device: torch.device) -> None:
        self._device, self._upload = device, Upload()
        self._pinned: dict[str, Tensor] = {}

    def start(self, fields: Mapping[str, Tensor], targets: Mapping[str, Tensor]) -> None:
        """Copy `fields` to tensors of the same names and sizes, in order with the current stream of their device.

        The fields may change as soon as this returns. It waits for the copies of the last batch.
        """
        self._upload.wait()
        for name, value in fields.items():
            self._upload.start(self._in_pinned(name, value), targets[name])

    def _in_pinned(self, name: str, value: Tensor) -> Tensor:
        if self._device.type != "cuda":
            return value
        pinned = self._pinned.get(name)
        if pinned is None or pinned.shape != value.shape or pinned.dtype != value.dtype:
            pinned = self._pinned[name] = torch.empty(value.shape, dtype=value.dtype, pin_memory=True)
        return pinned.copy_(value)
