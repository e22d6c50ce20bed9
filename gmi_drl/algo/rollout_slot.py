"""A place that rollouts lie in, one after another, and what was captured over it."""

from collections.abc import Callable
from functools import partial

from gmi_drl.algo.rollout import Rollout
from gmi_drl.cuda_graph import Captured


class Slot:
    """Holds one rollout at a time, always in the same memory, so that graphs over it can be replayed.

    They are the slot's: slots that are used by turns keep each its own, and a slot that is dropped takes its own along.

    Args:
        rollout: The memory.
        cuda_graphs: On a GPU, replay what is run over it as CUDA graphs.
    """

    def __init__(self, rollout: Rollout, *, cuda_graphs: bool = True) -> None:
        self.rollout, self._cuda_graphs = rollout, cuda_graphs
        self._captured: dict[Callable[[Rollout], None], Captured] = {}

    def run(self, function: Callable[[Rollout], None]) -> None:
        """Run a function over the rollout; as `Captured`, one for each function."""
        if function not in self._captured:
            device = self.rollout.obs.device
            self._captured[function] = Captured(partial(function, self.rollout), device, is_on=self._cuda_graphs)
        self._captured[function]()
