"""A fixed piece of work that no change of ours makes faster or slower: what the machine is worth while a case runs.

A ratio to another side stays as it is when both fall, by a slower allocator or a lost thread. Beside this both are seen
to have fallen. And where a result is slower than an older one, it tells whether the machine was.
"""

import time

SIZE = 512
"""Of the square float32 matrices that are multiplied: 0.27 GFLOP, in a core's cache."""

COPIED = 4 * 2**20
"""Numbers of float32 that are copied: 16 MiB, which no core's cache holds twice."""

LOOPS = 10
"""A matrix product and a copy each, so that what else runs on the core weighs as it does for the sides."""


class Calibration:
    """Each call measures once, by one thread.

    Attributes:
        seconds: Of a loop, mean of `LOOPS`, in each call so far.
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
        self._loop()  # the first one wakes the core
        started = time.perf_counter()
        for _ in range(LOOPS):
            self._loop()
        self.seconds.append((time.perf_counter() - started) / LOOPS)
        torch.set_num_threads(threads)

    def _loop(self) -> None:
        import torch

        torch.mm(*self._factors, out=self._product)
        self._copy.copy_(self._source)
