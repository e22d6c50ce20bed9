"""The supervisor of a node that the cluster may not have yet (`streams.fewest_actors`)."""

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import TYPE_CHECKING, Protocol

from gmi_drl.errors import InUseError, LayoutMismatchError
from gmi_drl.launch.nodes.supervisor_starters import END_S
from gmi_drl.launch.ray.cluster import RayNode, nodes
from gmi_drl.launch.ray.placement import LOOK_S, LayoutNode, Share, assigned, placed

if TYPE_CHECKING:
    from ray.util.placement_group import PlacementGroup


class Started(Protocol):
    """A supervisor that runs: `RaySupervisor`."""

    def how_it_ended(self) -> str:
        """Wait for its end. Returns how it ended."""

    def end(self, wait_s: float = END_S) -> None:
        """Make it end."""


class FreeNodes:
    """The nodes of the cluster that no node of the layout has got."""

    def __init__(self, taken: set[str]) -> None:
        self._taken, self._one_at_a_time = taken, threading.Lock()

    @contextmanager
    def taken(self, name: LayoutNode, share: Share) -> Iterator[RayNode]:
        """Take one with room for a share.

        Raises:
            LayoutMismatchError: If there is none.
        """
        with self._one_at_a_time:
            free = [node for node in nodes() if node.id not in self._taken]
            found = assigned({name: share}, free)[name]
            self._taken.add(found.id)
        try:
            yield found
        finally:
            self._taken.discard(found.id)


class LateRaySupervisor:
    """Waits for a node of the cluster with room, and starts the supervisor there. See `RaySupervisor`.

    Args:
        node: The node of the layout.
        share: The resources that a node of the cluster must have.
        free: Where to look for it.
        start: Starts the supervisor there, in a placement group of its own.
    """

    def __init__(
        self, node: LayoutNode, share: Share, free: FreeNodes, start: Callable[[RayNode, "PlacementGroup"], Started]
    ) -> None:
        self.name = f"node {node}"
        self._node, self._share, self._free, self._start = node, share, free, start
        self._started: Started | None = None
        self._is_over, self._starting = threading.Event(), threading.Lock()

    def how_it_ended(self) -> str:
        """Start it when there is a node, and wait for its end. Returns how it ended."""
        with ExitStack() as life:
            while self._started is None:
                if self._is_over.wait(LOOK_S):
                    return f"{self.name} was not waited for any longer"
                with suppress(LayoutMismatchError, InUseError):
                    self._try(life)
            return self._started.how_it_ended()

    def end(self, wait_s: float = END_S) -> None:
        """See `RaySupervisor`. Waits for no node any longer."""
        with self._starting:
            self._is_over.set()
        if self._started is not None:
            self._started.end(wait_s)

    def _try(self, life: ExitStack) -> None:
        with ExitStack() as tried:
            node = tried.enter_context(self._free.taken(self._node, self._share))
            group = tried.enter_context(placed({self._node: self._share}, {self._node: node}))
            with self._starting:
                if not self._is_over.is_set():
                    self._started = self._start(node, group)
            life.callback(tried.pop_all().close)
