"""TDG_EX, the paper's other template of synchronous training: a GMI for each role (section 5.1, Table 5)."""

from collections.abc import Mapping
from dataclasses import replace

from gmi_drl.config.learners import OUR_PPO, LearnerConfig, LearnerEntry
from gmi_drl.errors import UsageError
from gmi_drl.hardware.node import Node
from gmi_drl.hardware.speeds import SpeedsByBackend
from gmi_drl.layout.backends import PROCESS
from gmi_drl.layout.layout import Layout, Role
from gmi_drl.layout.mapping import MappingList
from gmi_drl.layout.policies import TRAINERS
from gmi_drl.templates.cost import Communication
from gmi_drl.templates.decoupled import DECOUPLED
from gmi_drl.templates.dedicated import Dedicated, chains, experience_bytes, step_bytes
from gmi_drl.templates.tcg_ex import TCG_EX
from gmi_drl.templates.template import Purpose
from gmi_drl.workload import TaskSpec

ROLES: dict[Role, str] = {
    "simulator": "gmi_drl.roles.dedicated.simulator:TrainingSimulator",
    "agent": "gmi_drl.roles.dedicated.agent:TrainingAgent",
    "trainer": "gmi_drl.roles.dedicated.trainer:Trainer",
}


class TdgEx(Dedicated):
    """See `Dedicated`. A baseline: it learns the same as TCG_EX, but experience crosses borders.

    A device needs at least three GMIs, one for each role.
    """

    name = "TDG_EX"
    what = "simulators, an agent and a trainer on GMIs of their own, so experience crosses borders (paper section 5.1)"
    purpose: Purpose = "training"
    others = ("agent", "trainer")

    def trainers_of(self, mapping: MappingList) -> MappingList:
        """See `Template`: the last GMI of each device."""
        return [list(device)[-1:] for device in mapping]

    def group_mistakes(self, layout: Layout) -> list[str]:
        """See `Template`: ranks must be in the order of devices, since they number the chains, too."""
        if mistakes := super().group_mistakes(layout):
            return mistakes
        wanted = tuple(chain.trainer for chain in chains(layout))
        needs = f"{self.name} needs the one group { ({TRAINERS: wanted}) }, in the order of devices"
        members = layout.groups[TRAINERS].members
        return [] if members == wanted else [f"{needs}, this layout has {members}"]

    def communication(
        self,
        task: TaskSpec,
        learner: LearnerConfig,
        node: Node,
        backend: str = PROCESS.name,
        speeds: SpeedsByBackend | None = None,
    ) -> Communication:
        """See `Template`: experience as messages, and gradients between trainers (Table 5).

        Parameters go back, M_p once for each device and iteration.
        """
        summed = super().communication(task, learner, node, backend, speeds)
        crossing = learner.horizon * (step_bytes(task) + experience_bytes(task))
        return replace(summed, message_bytes_per_env=crossing)

    def roles(self, layout: Layout, learner: LearnerEntry) -> Mapping[int, str]:
        """See `Template`. UsageError for learners other than our PPO."""
        if learner.name != OUR_PPO.name:
            other = TCG_EX if learner.role else DECOUPLED
            remedy = f"take --algo {OUR_PPO.name}, or a layout by {other.name}"
            raise UsageError(f"{self.name} trains by our PPO alone, not by {learner.name}: {remedy}")
        return {gmi.id: ROLES[gmi.roles[0]] for gmi in layout.gmis}


TDG_EX = TdgEx()
