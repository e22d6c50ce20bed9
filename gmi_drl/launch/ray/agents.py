"""Agents started through Ray: one actor per node, which starts ours and goes with it."""

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from gmi_drl.errors import MachineError
from gmi_drl.launch.ray.cluster import RayNode, connected, nodes
from gmi_drl.launch.ray.host import AgentHost
from gmi_drl.launch.ray.placement import LayoutNode, Share, assigned, placed, shares_of
from gmi_drl.launch.started import how_it_ended
from gmi_drl.layout import Layout

if TYPE_CHECKING:
    from ray.actor import ActorHandle
    from ray.util.placement_group import PlacementGroup

AGENT = (sys.executable, "-P", "-m", "gmi_drl.launch.nodes.agent")
"""The same interpreter on every node, at the same place."""

STARTED_S = 60.0
ENDED_S = 10.0


class RayAgent:
    """An agent that was started on a node. It ends with the connection to its launcher, which is not here."""

    def __init__(self, node: RayNode, host: "ActorHandle[AgentHost]", command: Sequence[str], order: str) -> None:
        self.node, self._host = node, host
        self._end = host.run.remote(list(command), order)

    def alive(self) -> bool:
        """Whether it has not ended, as far as Ray knows, which hears of a dead node late (8 to 22 s)."""
        return not self._wait(0.0)

    def why_gone(self) -> str:
        """How one that is not alive has ended, with the last lines that it printed."""
        import ray

        try:
            code, lines = ray.get(self._end, timeout=0)
        except ray.exceptions.GetTimeoutError:
            return f"the agent on {self.node.name} runs"
        except ray.exceptions.RayError as error:
            return f"Ray lost the agent on {self.node.name}: {str(error).splitlines()[0]}"
        return "\n".join((f"the agent on {self.node.name} {how_it_ended(code)}", *(f"  {line}" for line in lines)))

    def end(self, wait_s: float = ENDED_S) -> None:
        """Give it `wait_s` to end by itself, then kill its actor, with which it ends. May be called twice."""
        import ray

        self._wait(wait_s)
        with suppress(ray.exceptions.RayError):
            ray.kill(self._host)

    def _wait(self, wait_s: float) -> bool:
        import ray

        return bool(ray.wait([self._end], timeout=wait_s)[0])


class RayAgents:
    """Starts agents where a placement group keeps room for them.

    Attributes:
        address: The launcher's, as the nodes of the cluster see it.
    """

    def __init__(
        self,
        group: "PlacementGroup",
        shares: Mapping[LayoutNode, Share],
        on: Mapping[LayoutNode, RayNode],
        command: Sequence[str] = AGENT,
    ) -> None:
        import ray

        self._group, self._shares, self._on, self._command = group, shares, on, command
        self.address: str = ray.util.get_node_ip_address()

    def __call__(self, node: LayoutNode, order: Mapping[str, Any]) -> RayAgent:
        """Start the agent of a node of the layout.

        Args:
            node: Its name in the layout.
            order: JSON.

        Raises:
            MachineError: if Ray cannot start an actor there.
        """
        import ray
        from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

        share, place = self._shares[node], self._on[node]
        hosts = ray.remote(AgentHost).options(
            num_cpus=share.cpus,
            num_gpus=share.gpus,
            max_restarts=0,
            scheduling_strategy=PlacementGroupSchedulingStrategy(self._group, list(self._shares).index(node)),
        )
        host = hosts.remote()
        try:
            ray.get(host.ready.remote(), timeout=STARTED_S)
        except (ray.exceptions.RayError, TimeoutError) as error:
            ray.kill(host)
            reason = str(error).strip().splitlines()
            raise MachineError(
                f"Ray started no agent on {place.name} ({place.address}) within {STARTED_S:g} s: "
                f"{reason[-1] if reason else type(error).__name__}. gmi-drl must be installed there as it is here: "
                "`gmi-drl doctor --cluster ray` shows what each node has"
            ) from error
        return RayAgent(place, host, self._command, json.dumps(order))


@contextmanager
def ray_agents(layout: Layout, command: Sequence[str] = AGENT) -> Iterator[RayAgents]:
    """Room for a layout on a cluster, and what starts agents there, for the time of a `with` block.

    Raises:
        MachineError: if there is no Ray, it cannot be reached, or others use what the layout takes.
        LayoutMismatchError: if the cluster's nodes are too few or too small for it.
    """
    with connected():
        shares = shares_of(layout)
        on = assigned(shares, nodes())
        with placed(shares, on) as group:
            yield RayAgents(group, shares, on, command)
