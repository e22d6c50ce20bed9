"""TDG_EX, the paper's other template of synchronous training: a GMI for each role (section 5.1, Table 5)."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain as joined

from gmi_drl.cut import AnyCut
from gmi_drl.errors import UsageError
from gmi_drl.hardware import Node
from gmi_drl.layout import GmiGroup, Layout, Projection, Role
from gmi_drl.learners import OUR_PPO, LearnerConfig, LearnerEntry
from gmi_drl.mapping import MappingList
from gmi_drl.reductions import NONE, usual_reduction
from gmi_drl.speeds import Speeds
from gmi_drl.templates.cost import Communication
from gmi_drl.templates.dedicated import (
    chains,
    dedicated_devices,
    experience_bytes,
    form_of,
    role_mistakes,
    shares,
    step_bytes,
)
from gmi_drl.templates.tcg_ex import TCG_EX, TRAINERS
from gmi_drl.templates.template import UNMEASURED, Purpose, channel_mistakes
from gmi_drl.workload import TaskSpec

OTHERS: tuple[Role, ...] = ("agent", "trainer")
ROLES: dict[Role, str] = {
    "simulator": "gmi_drl.roles.dedicated.simulator:TrainingSimulator",
    "agent": "gmi_drl.roles.dedicated.agent:TrainingAgent",
    "trainer": "gmi_drl.roles.dedicated.trainer:Trainer",
}


class TdgEx:
    """See `Template`. For comparison: it learns what TCG_EX learns, and pays for borders.

    A device needs three GMIs: an agent that trains on its GMI would be another template.
    """

    name = "TDG_EX"
    what = "simulators, an agent and a trainer on GMIs of their own, so experience crosses borders (paper section 5.1)"
    purpose: Purpose = "training"
    usual_learner = OUR_PPO.name
    planner: str | None = None

    def lay_out(
        self,
        task: TaskSpec,
        node: Node,
        cut: AnyCut,
        projection: Projection = UNMEASURED,
        why: Sequence[str] = (),
        communication: Communication | None = None,
    ) -> Layout:
        """See `Template`: of the GMIs of a device the last learns, the one before acts and the others simulate."""
        devices = dedicated_devices(self.name, node, cut, OTHERS)
        mapping = trainers_of([[gmi.id for gmi in device.gmis] for device in devices])
        usual = usual_reduction(mapping, node.cpu.architecture)
        method = communication.method(mapping) if communication else usual
        reasons = [*why, *form_of(devices, cut, node, OTHERS), f"{self.name}: {self.what}"]
        if method is not NONE:
            reasons.append(f"{method.name}: {method.how}")
        return Layout(
            task=task.name,
            template=self.name,
            backend=cut.backend,
            share_cores=shares(devices, cut),
            devices=devices,
            groups={TRAINERS: GmiGroup(members=tuple(joined.from_iterable(mapping)), reduction=method.name)},
            projection=projection,
            reasons=tuple(reasons),
        )

    def groups(self, mapping: MappingList, architecture: str) -> dict[str, GmiGroup]:
        """See `Template`: the trainers of all devices."""
        trainers = trainers_of(mapping)
        method = usual_reduction(trainers, architecture)
        return {TRAINERS: GmiGroup(members=tuple(joined.from_iterable(trainers)), reduction=method.name)}

    def check(self, layout: Layout) -> list[str]:
        """See `Template`."""
        if mistakes := role_mistakes(self.name, layout, OTHERS):
            return mistakes
        wanted = {TRAINERS: tuple(chain.trainer for chain in chains(layout))}
        groups = {name: group.members for name, group in layout.groups.items()}
        if groups != wanted:
            mistakes.append(f"{self.name} needs the one group {wanted}, in the order of devices, it has {groups}")
        if len({device.kind for device in layout.devices}) > 1:
            mistakes.append(
                f"{self.name} needs devices of one kind, this layout has cpu and gpu, which round differently: give "
                "each kind a layout of its own"
            )
        return [*mistakes, *channel_mistakes(self.name, layout)]

    def communication(
        self, task: TaskSpec, learner: LearnerConfig, node: Node, speeds: Speeds | None = None
    ) -> Communication:
        """See `Template`: experience as messages, and gradients between trainers (Table 5).

        Parameters go the way back, M_p once for each device and iteration.
        """
        summed = TCG_EX.communication(task, learner, node, speeds)
        crossing = learner.horizon * (step_bytes(task) + experience_bytes(task))
        return replace(summed, message_bytes_per_env=crossing)

    def roles(self, layout: Layout, learner: LearnerEntry) -> Mapping[int, str]:
        """See `Template`.

        Raises:
            UsageError: if another learner than our PPO is to train so.
        """
        if learner.name != OUR_PPO.name:
            remedy = f"take --algo {OUR_PPO.name}, or a layout by {TCG_EX.name}"
            raise UsageError(f"{self.name} trains by our PPO alone, not by {learner.name}: {remedy}")
        return {gmi.id: ROLES[gmi.roles[0]] for gmi in layout.gmis}

    def probe(self, learner: LearnerEntry) -> str | None:
        """See `Template`: its GMIs are unlike."""
        return None

    def leaders(self, layout: Layout) -> tuple[int, ...]:
        """See `Template`: rank 0 of the trainers."""
        return layout.groups[TRAINERS].members[:1]

    def reporters(self, layout: Layout) -> tuple[int, ...]:
        """See `Template`: the trainers, each of all GMIs of its device."""
        return layout.groups[TRAINERS].members


def trainers_of(mapping: MappingList) -> list[list[int]]:
    """Of the GMIs of each device those that learn: the last."""
    return [list(device)[-1:] for device in mapping]


TDG_EX = TdgEx()
