"""Work for MuJoCo Warp, recorded once and replayed."""

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
import warp as wp

from gmi_drl.errors import MachineError


def can_capture(device: Any) -> bool:
    """Whether work on this device of Warp's can be recorded: without a memory pool no allocation can."""
    return bool(device.is_cpu or wp.is_mempool_enabled(device))


class Work:
    """A sequence of launches, replayed as one graph on torch's current stream, in order with what torch does there.

    Making it does the work twice: once because a capture cannot compile kernels, and once by the graph, because Warp
    makes a graph executable at its first launch, which the driver may refuse as well as the capture. Graphs exist on
    the CPU as well. Where none can be captured, each launch comes from Python.

    Args:
        launch: Launches the work on Warp's current device and stream. It must not read back from the device.
        device: Of the work.
        replay: False calls `launch` every time.

    Raises:
        MachineError: The driver refuses the capture or the graph.
    """

    def __init__(self, launch: Callable[[], None], device: torch.device, replay: bool = True) -> None:
        self._launch = launch
        self._device = wp.device_from_torch(device)
        self._torch_device = device
        self._graph: Any = None
        if replay and can_capture(self._device):
            self()
            self._record()

    def __call__(self) -> None:
        """Put the work into torch's current stream; on the CPU, do it."""
        with wp.ScopedDevice(self._device):
            if self._device.is_cpu:
                wp.capture_launch(self._graph) if self._graph else self._launch()
            elif self._graph:
                wp.capture_launch(self._graph, stream=wp.stream_from_torch(self._torch_device))
            else:
                self._launch_between()

    def _launch_between(self) -> None:
        """Launch on Warp's own stream, after what is on torch's and before what will be.

        Warp frees memory in the order of its own stream, so what allocates would not be safe on torch's.
        """
        own, torchs = wp.get_stream(), wp.stream_from_torch(self._torch_device)
        own.wait_stream(torchs)
        self._launch()
        torchs.wait_stream(own)

    def _record(self) -> None:
        try:
            self._graph = self._capture()
            self()
        except RuntimeError as error:
            raise MachineError(
                f"Warp cannot record its kernels as a graph on {self._device}: {error}. Without graphs physics runs, "
                "many times slower: --set cuda_graphs=false"
            ) from error

    def _capture(self) -> Any:
        """Torch's stream may be CUDA's default one, which cannot be captured, so Warp's own is."""
        with wp.ScopedDevice(self._device), _no_garbage_collection(), wp.ScopedCapture() as capture:
            self._launch()
        return capture.graph


@contextmanager
def _no_garbage_collection() -> Iterator[None]:
    """What the collector frees meanwhile may be memory of the GPU, and freeing that ends a capture."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
