"""The devices of a layout, held where they are."""

from collections.abc import Callable
from contextlib import AbstractContextManager

from gmi_drl.gmi import Claim, claimed
from gmi_drl.launch.ground import Laying
from gmi_drl.launch.nodes.hub import on_nodes
from gmi_drl.launch.nodes.starters import AgentStarter
from gmi_drl.layout import Layout


def held(
    layout: Layout,
    purpose: str,
    agents: AgentStarter | None = None,
    *,
    apply_mig: bool = False,
    tell: Callable[[str], None] = lambda line: None,
) -> AbstractContextManager[Claim | Laying]:
    """Hold them for the time of a `with` block: those of this machine, or of the layout's nodes by their `agents`.

    Args:
        layout: Whose devices.
        purpose: Tells others who holds them, e.g. the run folder.
        agents: Starts the agents of its nodes; None for a layout of this machine.
        apply_mig: Make the MIG instances that the layout wants, and restore afterwards what was there.
        tell: Told of a node that falls silent, in a line.

    Raises:
        LayoutMismatchError: if the layout does not fit this machine, or another process holds a device.
        MachineError: if agents do not come, or claims cannot be kept.
    """
    if agents is None:
        return claimed([layout], purpose, apply_mig=apply_mig)
    return on_nodes(layout, purpose, agents, apply_mig=apply_mig, tell=tell)
