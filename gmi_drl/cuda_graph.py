"""CUDA graphs: many small kernels by one launch."""

import gc
from collections.abc import Callable
from functools import cache
from typing import Any

import torch

WARM_UP_CALLS = 3
"""Before a capture, as PyTorch asks: kernels are chosen and memory is taken in these."""

_kept: dict[str, torch.cuda.CUDAGraph] = {}
"""The first graph of a memory: torch captures nothing more into one that has lost all its graphs while in use."""


class Captured:
    """A function without arguments that reads and writes the same tensors in every call.

    On a GPU it is run as it is for `WARM_UP_CALLS`, then captured, and replayed from then on: what took a launch for
    each of its kernels takes one. What it does on the host is done for the last time in the capture, so it must not
    wait for the device, branch on values or change what its tensors are. On a CPU it is always run as it is.

    All graphs of a process share the memory for what they make on the way: they run one after another, and what they
    are for lies in tensors that were there before. When all that was captured has been let go of,
    `forget_shared_memory` lets it be freed.

    Args:
        function: What to run.
        device: Where its tensors are.
        is_on: False runs it as it is on a GPU, too.
    """

    def __init__(self, function: Callable[[], None], device: torch.device, *, is_on: bool = True) -> None:
        self._function = function
        self._is_on = is_on and device.type != "cpu"
        self._calls = 0
        self._graph: torch.cuda.CUDAGraph | None = None

    def __call__(self) -> None:
        """Run it once; on a GPU without waiting for it."""
        if not self._is_on:
            self._function()
        elif self._graph is not None:
            self._graph.replay()
        elif self._calls < WARM_UP_CALLS:
            self._calls += 1
            self._run_aside()
        else:
            self._graph = self._capture()
            self._graph.replay()  # a capture runs nothing

    def _run_aside(self) -> None:
        """On a stream of its own, as the capture will be, in order with the current one."""
        current, aside = torch.cuda.current_stream(), _stream_aside()
        aside.wait_stream(current)
        with torch.cuda.stream(aside):
            self._function()
        current.wait_stream(aside)

    def _capture(self) -> torch.cuda.CUDAGraph:
        """Without Python's garbage collector, which may free another graph, and that is forbidden meanwhile."""
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
    """Share other memory from now on. What was shared is free for `torch.cuda.empty_cache` when its graphs are gone.

    To be called when whatever was captured has been let go of. A graph that lives all the same keeps the memory that it
    was captured into, and nothing else goes wrong.
    """
    _kept.clear()
    _pool.cache_clear()


@cache
def _stream_aside() -> torch.cuda.Stream:
    """One for all: the allocator keeps what was freed for each stream apart."""
    return torch.cuda.Stream()  # type: ignore[no-untyped-call]


@cache
def _pool() -> Any:
    return torch.cuda.graph_pool_handle()
