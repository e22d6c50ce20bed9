"""Layouts without lost nodes, whose environments the GMIs of the other nodes take over."""

from gmi_drl.errors import GmiDiedError, MissingNodeError
from gmi_drl.launch.processes.gmi_handle import LOST
from gmi_drl.layout.layout import GmiGroup, Layout
from gmi_drl.layout.reductions import HAR, NONE
from gmi_drl.templates import template_of

FOR_ALL = HAR.name
"""A reduction that is possible for all GMIs on all devices."""


def what_is_left(layout: Layout, error: GmiDiedError | MissingNodeError, agents: int = 1) -> Layout | None:
    """The layout without the nodes that an error has lost, if any; None if no other node has the roles of these.

    Args:
        layout: Of the run.
        error: What has ended it.
        agents: Of a world of its task.
    """
    if isinstance(error, MissingNodeError):
        lost = set(error.nodes)
    elif error.exit_code_of_gmi == LOST:
        lost = {str(layout.device_of(error.gmi_id).node)}
    else:
        return layout
    roles = {role for device in layout.devices if device.node not in lost for gmi in device.gmis for role in gmi.roles}
    if not roles or not roles.issuperset(role for gmi in layout.gmis for role in gmi.roles):
        return None
    for node in sorted(lost):
        layout = without_node(layout, node, agents)
    return None if template_of(layout).check(layout) else layout


def without_node(layout: Layout, node: str | None, agents: int = 1) -> Layout:
    """A layout without one of its nodes, with the same number of environments in all, in whole worlds of `agents`.

    Agents that send experience by channels keep their numbers, since their rollouts must have equal sizes.
    """
    kept = [device for device in layout.devices if device.node != node]
    simulating = [gmi.id for device in kept for gmi in device.gmis if "simulator" in gmi.roles]
    each, more = divmod(layout.num_env // agents, len(simulating))
    num_env = {gmi_id: agents * (each + (number < more)) for number, gmi_id in enumerate(simulating)}
    if layout.channels is not None:
        num_env = {gmi.id: gmi.num_env for gmi in layout.gmis}
    new_ids: dict[int, int] = {}
    devices = []
    for device in kept:
        gmis = []
        for gmi in device.gmis:
            new_ids[gmi.id] = len(new_ids)
            gmis.append(gmi.model_copy(update={"id": new_ids[gmi.id], "num_env": num_env.get(gmi.id, 0)}))
        devices.append(device.model_copy(update={"gmis": tuple(gmis)}))

    def joined_by(reduction: str | None) -> Layout:
        return Layout(
            task=layout.task,
            template=layout.template,
            backend=layout.backend,
            share_cores=layout.share_cores,
            devices=tuple(devices),
            groups={name: _kept(group, new_ids, reduction) for name, group in layout.groups.items()},
            channels=layout.channels,
            streams=layout.streams,
            reasons=(*layout.reasons, f"goes on without node {node}"),
        )

    try:
        return joined_by(None)
    except ValueError:  # e.g. MRR needs as many devices as a device has GMIs
        return joined_by(FOR_ALL)


def _kept(group: GmiGroup, new_ids: dict[int, int], reduction: str | None) -> GmiGroup:
    members = tuple(new_ids[gmi_id] for gmi_id in group.members if gmi_id in new_ids)
    return GmiGroup(members=members, reduction=(reduction or group.reduction) if len(members) > 1 else NONE.name)
