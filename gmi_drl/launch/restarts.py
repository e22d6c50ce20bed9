"""A training that goes on when GMIs die: from its last checkpoint, on what is left."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from gmi_drl.config import RunConfig
from gmi_drl.errors import GmiDiedError
from gmi_drl.launch.started import LOST
from gmi_drl.launch.succession import Restarts
from gmi_drl.launch.training import Outcome, train
from gmi_drl.layout import GmiGroup, Layout
from gmi_drl.reductions import HAR, NONE
from gmi_drl.run.checkpoint import list_checkpoints
from gmi_drl.run.folder import RunFolder
from gmi_drl.templates import template_of

FOR_ALL = HAR.name
"""Sums over whatever GMIs are on whatever devices."""


def train_on(
    layout: Layout,
    config: RunConfig,
    folder: RunFolder,
    *,
    restarts: int,
    resume: Path | None = None,
    tell: Callable[[str], None],
    **more: Any,
) -> Outcome:
    """As `train`, which is started again after the death of a GMI or a node, up to so many times.

    A lost node is left out: the GMIs of the others take over its environments, as nearly alike as they divide. Worlds
    begin anew where they have moved; a GMI that died alone is started where it was, and all worlds go on from the
    checkpoint. Whom the others can go on without is started again alone, and nothing is lost (`Template.succeeded`).

    Args:
        layout: As of `train`.
        config: As of `train`.
        folder: As of `train`.
        restarts: How many times at most.
        resume: As of `train`.
        tell: Told of each restart in a line, with what died.
        more: Further arguments of `train`.

    Raises:
        GmiDiedError: if there are no restarts left, no checkpoint yet, or no node.
    """
    allowed = Restarts(restarts, tell)
    while True:
        try:
            return train(layout, config, folder, resume=resume, restarts=allowed, **more)
        except GmiDiedError as error:
            saved, rest = list_checkpoints(folder.checkpoints), _what_is_left(layout, error)
            if not saved or rest is None:
                raise
            where = f" on {', '.join(str(node) for node in rest.nodes)}" if error.exit_code_of_gmi == LOST else ""
            if not allowed.take(error, f"going on from iteration {int(saved[-1].name)}{where}"):
                raise
            layout, resume = rest, saved[-1]


def _what_is_left(layout: Layout, error: GmiDiedError) -> Layout | None:
    """The same layout, or without the node that was lost; None if nobody else can do what was done there."""
    if error.exit_code_of_gmi != LOST:
        return layout
    lost = layout.device_of(error.gmi_id).node
    roles = {role for device in layout.devices if device.node != lost for gmi in device.gmis for role in gmi.roles}
    if not roles or not roles.issuperset(role for gmi in layout.gmis for role in gmi.roles):
        return None
    rest = without_node(layout, lost)
    return None if template_of(rest).check(rest) else rest


def without_node(layout: Layout, node: str | None) -> Layout:
    """A layout without one of its nodes, with as many environments in all.

    Agents that send experience by channels keep theirs: their rollouts are all alike.
    """
    kept = [device for device in layout.devices if device.node != node]
    simulating = [gmi.id for device in kept for gmi in device.gmis if "simulator" in gmi.roles]
    each, more = divmod(layout.num_env, len(simulating))
    num_env = {gmi_id: each + (number < more) for number, gmi_id in enumerate(simulating)}
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
            reasons=(*layout.reasons, f"goes on without node {node}"),
        )

    try:
        return joined_by(None)
    except ValueError:  # what is left is not for the method, as MRR needs as many devices as a device has GMIs
        return joined_by(FOR_ALL)


def _kept(group: GmiGroup, new_ids: dict[int, int], reduction: str | None) -> GmiGroup:
    members = tuple(new_ids[gmi_id] for gmi_id in group.members if gmi_id in new_ids)
    return GmiGroup(members=members, reduction=(reduction or group.reduction) if len(members) > 1 else NONE.name)
