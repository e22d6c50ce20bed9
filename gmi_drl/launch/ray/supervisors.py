"""Agents started through Ray: one actor per node, which starts ours and goes with it."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from gmi_drl.launch.nodes.starters import END_S
from gmi_drl.launch.processes.gmi_handle import how_it_ended
from gmi_drl.launch.ray.actor import AgentHost
from gmi_drl.launch.ray.cluster import RayNode, connected, nodes
from gmi_drl.launch.ray.placement import LayoutNode, Share, assigned_in_time, placed, shares_of
from gmi_drl.layout.layout import Layout

if TYPE_CHECKING:
    from ray.actor import ActorHandle
    from ray.util.placement_group import PlacementGroup


def arguments_of(node: LayoutNode) -> list[str]:
    """What the interpreter of a node is given to run its agent."""
    return ["-P", "-m", "gmi_drl.launch.nodes.supervisor", node or ""]


class RayAgent:
    """An agent that was started on a node of the cluster."""

    def __init__(self, node: RayNode, host: "ActorHandle[AgentHost]", arguments: Sequence[str], order: bytes) -> None:
        self.node, self._host = node, host
        self._ready = host.ready.remote()
        self._end = host.run.remote(list(arguments), order)

    def how_it_ended(self) -> str:
        """Wait for its end, and tell how it came, with the last lines that it printed.

        Ray tells late of a node that has died (8 to 22 s).
        """
        import ray

        try:
            ray.get(self._ready)
        except ray.exceptions.RayError as error:
            why = f"Ray started no agent on {self.node.name} ({self.node.address}): {last_line(error)}"
            return f"{why}. gmi-drl must be installed there as it is here, see `gmi-drl doctor --cluster ray`"
        try:
            code, lines = ray.get(self._end)
        except ray.exceptions.RayError as error:
            return f"Ray lost the agent on {self.node.name}: {str(error).splitlines()[0]}"
        return "\n".join((f"the agent on {self.node.name} {how_it_ended(code)}", *(f"  {line}" for line in lines)))

    def end(self, wait_s: float = END_S) -> None:
        """Ask it to end, and kill its actor, with which it ends, after `wait_s` at the latest. May be called twice."""
        import ray

        with suppress(ray.exceptions.RayError):
            self._host.close_input.remote()
            ray.wait([self._end], timeout=wait_s)
            ray.kill(self._host)


class RaySupervisors:
    """Starts agents where a placement group keeps room for them.

    Args:
        group: A bundle for each share, in order.
        shares: What each node of the layout takes.
        on: Which node of the cluster each one is.
        arguments: Of the agent of a node.

    Attributes:
        address: The launcher's, as the nodes of the cluster see it.
    """

    def __init__(
        self,
        group: "PlacementGroup",
        shares: Mapping[LayoutNode, Share],
        on: Mapping[LayoutNode, RayNode],
        arguments: Callable[[LayoutNode], Sequence[str]] = arguments_of,
    ) -> None:
        import ray

        self._group, self._shares, self._on, self._arguments = group, shares, on, arguments
        self.address: str = ray.util.get_node_ip_address()

    def start(self, node: LayoutNode, order: bytes) -> RayAgent:
        """Have the agent of a node of the layout start; see `AgentStarter`."""
        import ray
        from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

        share = self._shares[node]
        hosts = ray.remote(AgentHost).options(
            num_cpus=share.cpus,
            num_gpus=share.gpus,
            max_restarts=0,
            max_concurrency=2,  # waiting, and being asked to end
            scheduling_strategy=PlacementGroupSchedulingStrategy(self._group, list(self._shares).index(node)),
        )
        return RayAgent(self._on[node], hosts.remote(), self._arguments(node), order)


def last_line(error: Exception) -> str:
    """Of what Ray says, which ends with the cause; its kind where it says nothing."""
    return (str(error).strip() or type(error).__name__).splitlines()[-1]


@contextmanager
def ray_agents(
    layout: Layout, arguments: Callable[[LayoutNode], Sequence[str]] = arguments_of
) -> Iterator[RaySupervisors]:
    """Room for a layout on a cluster, and what starts agents there, for the time of a `with` block.

    Raises:
        MachineError: if there is no Ray, it cannot be reached, or others use what the layout takes.
        LayoutMismatchError: if the cluster's nodes are too few or too small for it.
    """
    with connected():
        shares = shares_of(layout)
        on = assigned_in_time(shares, nodes)
        with placed(shares, on) as group:
            yield RaySupervisors(group, shares, on, arguments)
