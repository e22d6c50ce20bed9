"""Starts supervisors through Ray: one actor per node, which starts the supervisor and ends with it."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from types import MappingProxyType
from typing import TYPE_CHECKING

from gmi_drl.launch.nodes.supervisor_starters import END_S
from gmi_drl.launch.processes.gmi_handle import how_it_ended
from gmi_drl.launch.ray.actor import SupervisorActor
from gmi_drl.launch.ray.cluster import RayNode, connected, nodes
from gmi_drl.launch.ray.late_supervisor import FreeNodes, LateRaySupervisor
from gmi_drl.launch.ray.placement import LayoutNode, Share, assigned_in_time, on_wanted, placed, shares_of
from gmi_drl.layout.late_nodes import late_nodes
from gmi_drl.layout.layout import Layout

if TYPE_CHECKING:
    from ray.actor import ActorHandle
    from ray.util.placement_group import PlacementGroup


def arguments_of(node: LayoutNode) -> list[str]:
    """The arguments of the interpreter that runs the supervisor of a node."""
    return ["-P", "-m", "gmi_drl.launch.nodes.supervisor", node or ""]


class RaySupervisor:
    """A supervisor that was started on a node of the cluster."""

    def __init__(
        self, node: RayNode, actor: "ActorHandle[SupervisorActor]", arguments: Sequence[str], order: bytes
    ) -> None:
        self.node, self.name, self._actor = node, node.name, actor
        self._ready = actor.ready.remote()
        self._end = actor.run.remote(list(arguments), order)

    def how_it_ended(self) -> str:
        """Wait for the end of the supervisor. Returns how it ended, with its last lines of output.

        Ray reports the death of a node after 8 to 22 s.
        """
        import ray

        try:
            ray.get(self._ready)
        except ray.exceptions.RayError as error:
            why = f"Ray started no supervisor on {self.node.name} ({self.node.address}): {last_line(error)}"
            return f"{why}. gmi-drl must be installed there as it is here, see `gmi-drl doctor --cluster ray`"
        try:
            code, lines = ray.get(self._end)
        except ray.exceptions.RayError as error:
            return f"Ray lost the supervisor on {self.node.name}: {str(error).splitlines()[0]}"
        return "\n".join((f"the supervisor on {self.node.name} {how_it_ended(code)}", *(f"  {line}" for line in lines)))

    def end(self, wait_s: float = END_S) -> None:
        """Make the supervisor end, and kill it with its actor after `wait_s`. May be called twice."""
        import ray

        with suppress(ray.exceptions.RayError):
            self._actor.close_input.remote()
            ray.wait([self._end], timeout=wait_s)
            ray.kill(self._actor)


class RaySupervisors:
    """Starts supervisors in the bundles of a placement group.

    Args:
        group: The placement group, with a bundle for each share, in order.
        shares: The resources for each node of the layout.
        on: The node of the cluster for each node of the layout.
        arguments: The arguments of the interpreter for a node's supervisor.
        late: The resources for nodes of the layout that the cluster may not have yet.

    Attributes:
        address: The launcher's address, as the nodes of the cluster see it.
    """

    def __init__(
        self,
        group: "PlacementGroup",
        shares: Mapping[LayoutNode, Share],
        on: Mapping[LayoutNode, RayNode],
        arguments: Callable[[LayoutNode], Sequence[str]] = arguments_of,
        late: Mapping[LayoutNode, Share] = MappingProxyType({}),
    ) -> None:
        import ray

        self._group, self._shares, self._on, self._arguments, self._late = group, shares, on, arguments, late
        self._free = FreeNodes({node.id for node in on.values()})
        self.address: str = ray.util.get_node_ip_address()

    def start(self, node: LayoutNode, order: bytes) -> RaySupervisor | LateRaySupervisor:
        """Start the supervisor of a node of the layout; see `SupervisorStarter`."""
        if node in self._late:
            share = self._late[node]
            return LateRaySupervisor(
                node, share, self._free, lambda found, group: self._start(node, order, found, share, group, 0)
            )
        at = list(self._shares).index(node)
        return self._start(node, order, self._on[node], self._shares[node], self._group, at)

    def _start(
        self, node: LayoutNode, order: bytes, found: RayNode, share: Share, group: "PlacementGroup", bundle: int
    ) -> RaySupervisor:
        import ray
        from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

        actors = ray.remote(SupervisorActor).options(
            num_cpus=share.cpus,
            num_gpus=share.gpus,
            max_restarts=0,
            max_concurrency=2,  # `run` waits while `close_input` is called
            scheduling_strategy=PlacementGroupSchedulingStrategy(group, bundle),
        )
        return RaySupervisor(found, actors.remote(), self._arguments(node), order)


def last_line(error: Exception) -> str:
    """The last line of an error of Ray, which names the cause; the error's type if there is no text."""
    return (str(error).strip() or type(error).__name__).splitlines()[-1]


@contextmanager
def ray_supervisors(
    layout: Layout, arguments: Callable[[LayoutNode], Sequence[str]] = arguments_of
) -> Iterator[RaySupervisors]:
    """Reserve nodes of a cluster for a layout, for the time of a `with` block. Yields what starts supervisors there.

    Nodes of the layout that may join a run later need not be there yet.

    Raises:
        MachineError: if Ray is not installed or cannot be reached.
        InUseError: if others use the resources of the layout.
        LayoutMismatchError: if the cluster's nodes are too few or too small for the layout.
    """
    with connected():
        shares = shares_of(layout)
        late: dict[LayoutNode, Share] = {node: shares.pop(node) for node in late_nodes(layout)}
        on = assigned_in_time(shares, lambda: on_wanted(shares, nodes()))
        with placed(shares, on) as group:
            yield RaySupervisors(group, shares, on, arguments, late)
