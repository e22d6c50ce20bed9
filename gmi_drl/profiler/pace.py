"""How long measuring takes: what is expected of starts and points, and how walks share a budget."""

from dataclasses import dataclass

from gmi_drl.profiler.session import Measured

START_S = 6.0
"""That a process takes to import torch, until one has been started."""


@dataclass
class Pace:
    """What measuring takes on one kind of device. It learns from every point.

    Args:
        measure_s: Of iterations at each point, one at least.
        walk_s: That a useful walk over the numbers of environments takes, with its start.
        beside_s: That a point takes beside these and one iteration of the warm-up: its worlds, its graphs and the rest
            of the warm-up.
        start_s: That a process takes until it is ready, kernels apart.
    """

    measure_s: float
    walk_s: float
    beside_s: float = 0.0
    start_s: float = START_S

    def has_run(self, took_s: float, measured: Measured) -> None:
        """Learn from a point."""
        self.beside_s = max(0.0, took_s - (measured.iterations + 1) * measured.iteration_s)

    def expected_s(self, iteration_s: float = 0.0) -> float:
        """What a point will take in a process that has started; without an iteration's time, one that is quick."""
        return self.beside_s + max(iteration_s, self.measure_s) + (iteration_s or self.measure_s)

    @property
    def first_s(self) -> float:
        """What a first point will take, with its start."""
        return self.start_s + self.expected_s()

    def share(self, left_s: float, walks: int) -> float:
        """The part of what is left that the next of so many walks gets.

        As many as can be useful get the same; what is left over then is for the others, which may well get nothing.
        """
        return 1 / int(max(1.0, min(walks, left_s / self.walk_s)))
