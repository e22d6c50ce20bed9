"""A fixed piece of work that measures the speed of the machine while a case runs.

A ratio of two sides does not change if both become slower, by a slower allocator or a lost thread. Against this work,
which no change of ours affects, it is seen. It also shows whether a result is slower because the machine was.
"""

import time

SIZE = 512
"""Side of the square float32 matrices that are multiplied: 0.27 GFLOP, in a core's cache."""

COPIED = 4 * 2**20
"""Float32 numbers that are copied: 16 MiB, which no core's cache holds twice."""

LOOPS = 10
"""Loops of a matrix product and a copy: enough that other work on the core slows them as it slows the sides."""


class Calibration:
    """Each call measures once, on one thread.

    Attributes:
        seconds: Mean seconds of a loop, for each call so far.
    """

    def __init__(self) -> None:
        import torch

        self.seconds: list[float] = []
        self._factors, self._product = torch.rand(2, SIZE, SIZE), torch.empty(SIZE, SIZE)
        self._source, self._copy = torch.rand(COPIED), torch.zeros(COPIED)

    def __call__(self) -> None:
        """Measure."""
        import torch

        threads = torch.get_num_threads()
        torch.set_num_threads(1)
        self._loop()  # warm-up of the core
        started = time.perf_counter()
        for _ in range(LOOPS):
            self._loop()
        self.seconds.append((time.perf_counter() - started) / LOOPS)
        torch.set_num_threads(threads)

    def _loop(self) -> None:
        import torch

        torch.mm(*self._factors, out=self._product)
        self._copy.copy_(self._source)
