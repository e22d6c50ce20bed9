"""Nodes that join a run later: each is admitted by a thread of its own, so that the run does not wait for it."""

import threading
from collections.abc import Callable
from contextlib import suppress
from queue import Empty, SimpleQueue

from gmi_drl.errors import GmiError
from gmi_drl.launch.nodes.remote_node import RemoteNode, Tell
from gmi_drl.layout.late_nodes import gmis_on
from gmi_drl.layout.layout import Layout


class LateNodes:
    """See `launch.hosts.LateGMIs`.

    Args:
        layout: Of the run.
        absent: The nodes that have not come yet.
        arrivals: Returns the nodes that have connected since the last call.
        admit: Has a node open and share its part; raises `GmiError` or OSError if it cannot. One is admitted at a time.
        tell: Called with a line about a node that joins, or cannot.
    """

    def __init__(
        self,
        layout: Layout,
        absent: frozenset[str],
        arrivals: Callable[[], list[RemoteNode]],
        admit: Callable[[RemoteNode], None],
        tell: Tell,
    ) -> None:
        self.absent = gmis_on(layout, absent)
        self._layout, self._arrivals, self._admit, self._tell = layout, arrivals, admit, tell
        self._admitted, self._one_at_a_time = SimpleQueue[str](), threading.Lock()

    def come(self) -> list[int]:
        """See `LateGMIs`."""
        for node in self._arrivals() if self.absent else ():
            threading.Thread(target=self._let_in, args=(node,), name=f"node {node.name}", daemon=True).start()
        with suppress(Empty):
            name = self._admitted.get_nowait()
            gmis = gmis_on(self._layout, {name})
            self.absent -= gmis
            self._tell(f"node {name} joins the run with GMI {', '.join(map(str, sorted(gmis)))}")
            return sorted(gmis)
        return []

    def _let_in(self, node: RemoteNode) -> None:
        try:
            with self._one_at_a_time:  # nodes of one machine share its cores, and all find one file in the run folder
                self._admit(node)
        except (GmiError, OSError) as error:
            node.close()
            self._tell(f"node {node.name} cannot join: {error}")
        else:
            self._admitted.put(node.name)
