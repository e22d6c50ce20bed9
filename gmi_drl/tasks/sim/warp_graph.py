"""Work for MuJoCo Warp, recorded once and replayed. Importing this module initialises Warp."""

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import torch
import warp as wp

from gmi_drl.errors import MachineError

wp.config.log_level = wp.LOG_WARNING  # by default it prints every module it loads to stdout
wp.init()


def current_stream(device: torch.device) -> Any:
    """Torch's current stream on a GPU, as Warp has it; Warp's current one where both have the same handle."""
    own, handle = wp.get_stream(wp.device_from_torch(device)), torch.cuda.current_stream(device).cuda_stream
    return own if own.cuda_stream == handle else stream_at(device, handle)


@cache
def stream_at(device: torch.device, handle: int) -> Any:
    """Warp's object for a stream that is not its own, kept while the process lives.

    Warp registers a stream by its handle when an object is made, and unregisters it when any object of that handle
    ends: it captures nothing on the stream from then on, and where that was its current stream, what it allocates and
    sets to zero leaves the graph for CUDA's default stream. So there is one object for each handle.
    """
    return wp.Stream(wp.device_from_torch(device), cuda_stream=handle)


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
                wp.capture_launch(self._graph, stream=current_stream(self._torch_device))
            else:
                self._launch_between()

    def _launch_between(self) -> None:
        """Launch on Warp's own stream, after what is on torch's and before what will be.

        Warp frees memory in the order of its own stream, so what allocates would not be safe on torch's.
        """
        own, torchs = wp.get_stream(), current_stream(self._torch_device)
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
