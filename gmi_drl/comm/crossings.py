"""Agents that send experience to trainers on another host, and where each of them is met there: by its stand-in.

Trainers share a host, which has the memory of the channels. A stand-in is a process of that host which does there what
an agent of another one says by a connection (`comm.channels.stand_in`).
"""

import os
import socket
from collections.abc import Mapping
from contextlib import ExitStack

from gmi_drl.comm.links.meeting import Meeting, listen
from gmi_drl.comm.spots import Spot
from gmi_drl.errors import MachineError
from gmi_drl.layout import Layout
from gmi_drl.membership import Membership

AGENT, STAND_IN = 0, 1
"""The ranks of a crossing. A rank calls those below it, so a stand-in learns at once that its agent died early."""


def home_of(layout: Layout) -> str | None:
    """The node of the trainers, which has the memory of the channels; None: the only machine, or none trains."""
    trainers = layout.with_role("trainer")
    return layout.device_of(trainers[0].id).node if trainers else None


def far_agents(layout: Layout) -> tuple[int, ...]:
    """The GMIs that send experience to another host, by id."""
    if layout.channels is None or len(layout.nodes) == 1:
        return ()
    home = home_of(layout)
    agents = (gmi for gmi in layout.with_role("agent") if "trainer" not in gmi.roles)
    return tuple(gmi.id for gmi in agents if layout.device_of(gmi.id).node != home)


def are_on_one_node(layout: Layout, gmi_id: int, other: int) -> bool:
    """Whether two GMIs share a host."""
    return layout.device_of(gmi_id).node == layout.device_of(other).node


def can_hear(layout: Layout, gmi_id: int, other: int) -> bool:
    """Whether messages of another GMI come to one: it, or who stands in for it and passes them on, is on its host."""
    is_home = layout.device_of(gmi_id).node == home_of(layout)
    return are_on_one_node(layout, gmi_id, other) or (is_home and other in far_agents(layout))


def crossing_of(gmi_id: int) -> str:
    """What the crossing of an agent is called where groups have their names, which have no spaces."""
    return f"channels of GMI {gmi_id}"


def member_of(gmi_id: int, rank: int, home: str | None, hang_s: float) -> Membership:
    """One end of the crossing of an agent, as errors name both."""
    names = f"GMI {gmi_id}", f"the stand-in of GMI {gmi_id} with its trainers on node {home}"
    return Membership(rank, [[AGENT], [STAND_IN]], names, hang_s)


class Crossings:
    """The ends of crossings that are on one host: where they listen, and their spots.

    To be closed when those who use them are started, like `Spots`.

    Args:
        layout: Of all GMIs.
        node: The host's name in it.
        host: The address by which other nodes reach it.

    Raises:
        MachineError: If there are too many descriptors.
    """

    def __init__(self, layout: Layout, node: str | None, host: str) -> None:
        self._is_home = node == home_of(layout)
        far = far_agents(layout)
        here = [gmi_id for gmi_id in far if self._is_home or layout.device_of(gmi_id).node == node]
        self._meetings: dict[int, int] = {}
        with ExitStack() as undone:
            try:
                self._listeners: dict[int, socket.socket] = {
                    gmi_id: undone.enter_context(listen(host)) for gmi_id in here
                }
            except OSError as error:
                why = f"agents of other nodes have no place to meet: {error.strerror} (ulimit -n)"
                raise MachineError(f"{why}: use fewer agents") from error
            self._life = undone.pop_all()

    @property
    def addresses(self) -> dict[str, dict[int, tuple[str, int]]]:
        """Where each end of this host listens, by the crossing's name and its rank."""
        rank = STAND_IN if self._is_home else AGENT
        return {crossing_of(gmi_id): {rank: one.getsockname()} for gmi_id, one in self._listeners.items()}

    def meet(self, meetings: Mapping[str, Meeting]) -> None:
        """Tell them where both ends listen."""
        for gmi_id in self._listeners:
            self._meetings[gmi_id] = written = meetings[crossing_of(gmi_id)].written()
            self._life.callback(os.close, written)

    def spots(self, gmi_id: int) -> dict[str, Spot]:
        """That of an agent of this host, or of its stand-in, by the crossing's name; none where it crosses nothing."""
        if gmi_id not in self._listeners:
            return {}
        return {crossing_of(gmi_id): Spot(None, None, self._listeners[gmi_id].fileno(), self._meetings.get(gmi_id))}

    @property
    def guests(self) -> tuple[int, ...]:
        """The agents of other hosts for which somebody stands in here."""
        return tuple(self._listeners) if self._is_home else ()

    def close(self) -> None:
        """Close the descriptors; who has inherited them keeps theirs."""
        self._life.close()
