"""Memory for rollouts, one after another, and the CUDA graphs over it."""

from collections.abc import Callable
from functools import partial

from gmi_drl.algo.rollout import Rollout
from gmi_drl.cuda_graph import Captured


class Slot:
    """The memory of one rollout at a time, and the CUDA graphs over it, which are freed with it.

    Args:
        rollout: The memory.
        cuda_graphs: Whether `run` uses CUDA graphs, on a GPU.
    """

    def __init__(self, rollout: Rollout, *, cuda_graphs: bool = True) -> None:
        self.rollout, self._cuda_graphs = rollout, cuda_graphs
        self._captured: dict[Callable[[Rollout], None], Captured] = {}

    def run(self, function: Callable[[Rollout], None]) -> None:
        """Call a function with the rollout, through a `Captured` for each function."""
        if function not in self._captured:
            device = self.rollout.obs.device
            self._captured[function] = Captured(partial(function, self.rollout), device, is_on=self._cuda_graphs)
        self._captured[function]()
