"""CUDA graphs: many small kernels in one launch."""

import gc
from collections.abc import Callable
from functools import cache
from typing import Any

import torch

WARM_UP_CALLS = 3
"""Calls before a capture, as PyTorch requires: they choose kernels and allocate memory."""

_kept: dict[str, torch.cuda.CUDAGraph] = {}
"""The first graph of the shared pool: torch cannot capture into a pool in use that has lost all its graphs."""


class Captured:
    """Calls a function as a CUDA graph. It has no arguments, and reads and writes the same tensors in every call.

    On a GPU the first `WARM_UP_CALLS` call it, the next captures it, and later calls replay the graph: one launch
    instead of one for each kernel. A replay does nothing on the host, so the function must not wait for the device,
    branch on values or replace its tensors. On a CPU it is always called.

    All graphs of a process share one pool for temporary memory: they run one after another, and their results are in
    tensors allocated before. When all graphs are gone, `forget_shared_memory` lets the pool be freed.

    Args:
        function: To be called.
        device: Of its tensors.
        is_on: False to call the function on a GPU, too.
    """

    def __init__(self, function: Callable[[], None], device: torch.device, *, is_on: bool = True) -> None:
        self._function = function
        self._is_on = is_on and device.type != "cpu"
        self._calls = 0
        self._graph: torch.cuda.CUDAGraph | None = None

    def __call__(self) -> None:
        """Call the function once; on a GPU without waiting for it."""
        if not self._is_on:
            self._function()
        elif self._graph is not None:
            self._graph.replay()
        elif self._calls < WARM_UP_CALLS:
            self._calls += 1
            self._warm_up()
        else:
            self._graph = self._capture()
            self._graph.replay()  # a capture runs nothing

    def _warm_up(self) -> None:
        """Call the function on the side stream, as in the capture, in order with the current stream."""
        current, side = torch.cuda.current_stream(), _side_stream()
        side.wait_stream(current)
        with torch.cuda.stream(side):
            self._function()
        current.wait_stream(side)

    def _capture(self) -> torch.cuda.CUDAGraph:
        """Capture, without Python's garbage collector: it may free another graph, which is forbidden meanwhile."""
        graph = torch.cuda.CUDAGraph()
        was_on = gc.isenabled()
        gc.disable()
        try:
            with torch.cuda.graph(graph, pool=_pool()):
                self._function()
        finally:
            if was_on:
                gc.enable()
        _kept.setdefault("first", graph)
        return graph


def forget_shared_memory() -> None:
    """Use a new pool from now on. `torch.cuda.empty_cache` can free the old one when all its graphs are gone.

    A graph that still exists keeps the old pool; there is no other harm.
    """
    _kept.clear()
    _pool.cache_clear()


@cache
def _side_stream() -> torch.cuda.Stream:
    """One stream for all warm-ups: the allocator caches freed memory for each stream apart."""
    return torch.cuda.Stream()  # type: ignore[no-untyped-call]


@cache
def _pool() -> Any:
    return torch.cuda.graph_pool_handle()
