"""Sequences of Warp's launches, recorded once as graphs and replayed. Importing this module initialises Warp."""

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
    """Torch's current stream on a GPU, as an object of Warp: Warp's current stream if both have the same handle."""
    own, handle = wp.get_stream(wp.device_from_torch(device)), torch.cuda.current_stream(device).cuda_stream
    return own if own.cuda_stream == handle else stream_at(device, handle)


@cache
def stream_at(device: torch.device, handle: int) -> Any:
    """Warp's object for a stream that Warp has not made. There is one for each handle, kept as long as the process.

    Warp registers a stream by its handle when an object is made, and unregisters it when any object with that handle is
    freed. From then on it captures nothing on that stream. If it was Warp's current stream, allocations and memsets
    leave the graph and go to CUDA's default stream.
    """
    return wp.Stream(wp.device_from_torch(device), cuda_stream=handle)


def can_capture(device: Any) -> bool:
    """Whether work on this Warp device can be recorded: allocations can only with a memory pool."""
    return bool(device.is_cpu or wp.is_mempool_enabled(device))


class Work:
    """A sequence of launches, replayed as one graph on torch's current stream, in order with torch's own work.

    The constructor does the work twice. The first time compiles the kernels, which a capture cannot. The second time
    launches the graph, because Warp makes it executable only then, and the driver may refuse that as well as the
    capture. Graphs exist on the CPU, too. If no graph can be captured, each launch comes from Python.

    Args:
        launch: Launches the work on Warp's current device and stream. It must not read back from the device.
        device: The device of the work.
        replay: If False, `launch` is called every time.

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
        """Launch the work on torch's current stream. On the CPU, do it."""
        with wp.ScopedDevice(self._device):
            if self._device.is_cpu:
                wp.capture_launch(self._graph) if self._graph else self._launch()
            elif self._graph:
                wp.capture_launch(self._graph, stream=current_stream(self._torch_device))
            else:
                self._launch_between()

    def _launch_between(self) -> None:
        """Launch on Warp's own stream, after the work that is on torch's stream and before all later work there.

        Warp frees memory in the order of its own stream, so work that allocates would not be safe on torch's.
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
                f"Warp cannot record its kernels as a graph on {self._device}: {error}. --set cuda_graphs=false runs "
                "the physics without graphs, many times slower"
            ) from error

    def _capture(self) -> Any:
        """Capture on Warp's own stream: torch's may be CUDA's default stream, which cannot be captured."""
        with wp.ScopedDevice(self._device), _no_garbage_collection(), wp.ScopedCapture() as capture:
            self._launch()
        return capture.graph


@contextmanager
def _no_garbage_collection() -> Iterator[None]:
    """Turn the garbage collector off for the time of a `with` block: if it frees GPU memory, a capture fails."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
