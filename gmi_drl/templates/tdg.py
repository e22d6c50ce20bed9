"""TDG, the paper's other template of serving: simulators and agents on separate GMIs (section 5.1, Table 4)."""

from collections.abc import Mapping

from gmi_drl.config.learners import LearnerConfig, LearnerEntry
from gmi_drl.hardware.node import Node
from gmi_drl.hardware.speeds import SpeedsByBackend
from gmi_drl.layout.backends import PROCESS
from gmi_drl.layout.layout import Layout, Role
from gmi_drl.templates.cost import Communication
from gmi_drl.templates.dedicated import Dedicated, step_bytes
from gmi_drl.templates.template import Purpose
from gmi_drl.workload import TaskSpec

ROLES: dict[Role, str] = {
    "simulator": "gmi_drl.roles.dedicated.simulator:ServingSimulator",
    "agent": "gmi_drl.roles.dedicated.server:DedicatedServer",
}


class Tdg(Dedicated):
    """See `Dedicated`. A baseline: states, rewards and actions cross borders in every control step.

    An agent starts and stops its simulators, and reports for all their environments.
    """

    name = "TDG"
    what = "simulators and an agent on GMIs of their own, so each control step crosses borders (paper section 5.1)"
    purpose: Purpose = "serving"
    others = ("agent",)

    def communication(
        self,
        task: TaskSpec,
        learner: LearnerConfig,
        node: Node,
        backend: str = PROCESS.name,
        speeds: SpeedsByBackend | None = None,
    ) -> Communication:
        """See `Template`: messages in every control step (Table 4)."""
        return Communication(message_bytes_per_env=learner.horizon * step_bytes(task))

    def roles(self, layout: Layout, learner: LearnerEntry) -> Mapping[int, str]:
        """See `Template`."""
        return {gmi.id: ROLES[gmi.roles[0]] for gmi in layout.gmis}


TDG = Tdg()
