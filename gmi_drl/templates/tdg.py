"""TDG, the paper's other template of serving: simulators and agents have GMIs of their own (section 5.1, Table 4)."""

from collections.abc import Mapping, Sequence

from gmi_drl.cut import AnyCut
from gmi_drl.hardware import Node
from gmi_drl.layout import GmiGroup, Layout, Projection, Role
from gmi_drl.learners import OUR_PPO, LearnerConfig, LearnerEntry
from gmi_drl.mapping import MappingList
from gmi_drl.speeds import Speeds
from gmi_drl.templates.cost import Communication
from gmi_drl.templates.dedicated import chains, dedicated_devices, form_of, role_mistakes, shares, step_bytes
from gmi_drl.templates.template import UNMEASURED, Purpose, channel_mistakes
from gmi_drl.workload import TaskSpec

OTHERS: tuple[Role, ...] = ("agent",)
ROLES: dict[Role, str] = {
    "simulator": "gmi_drl.roles.dedicated.simulator:ServingSimulator",
    "agent": "gmi_drl.roles.dedicated.server:DedicatedServer",
}


class Tdg:
    """See `Template`. For comparison: states, rewards and actions cross borders in every control step."""

    name = "TDG"
    what = "simulators and an agent on GMIs of their own, so each control step crosses borders (paper section 5.1)"
    purpose: Purpose = "serving"
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
        """See `Template`: of the GMIs of a device the last acts and the others simulate."""
        devices = dedicated_devices(self.name, node, cut, OTHERS)
        return Layout(
            task=task.name,
            template=self.name,
            backend=cut.backend,
            share_cores=shares(devices, cut),
            devices=devices,
            projection=projection,
            reasons=(*why, *form_of(devices, cut, node, OTHERS), f"{self.name}: {self.what}"),
        )

    def groups(self, mapping: MappingList, architecture: str) -> dict[str, GmiGroup]:
        """See `Template`: nothing is summed."""
        return {}

    def check(self, layout: Layout) -> list[str]:
        """See `Template`."""
        mistakes = role_mistakes(self.name, layout, OTHERS)
        if layout.groups:
            mistakes.append(f"{self.name} has no groups, this layout has {', '.join(layout.groups)}")
        return [*mistakes, *channel_mistakes(self.name, layout)]

    def communication(
        self, task: TaskSpec, learner: LearnerConfig, node: Node, speeds: Speeds | None = None
    ) -> Communication:
        """See `Template`: messages in every control step (Table 4)."""
        return Communication(message_bytes_per_env=learner.horizon * step_bytes(task))

    def roles(self, layout: Layout, learner: LearnerEntry) -> Mapping[int, str]:
        """See `Template`."""
        return {gmi.id: ROLES[gmi.roles[0]] for gmi in layout.gmis}

    def probe(self, learner: LearnerEntry) -> str | None:
        """See `Template`: its GMIs are unlike."""
        return None

    def leaders(self, layout: Layout) -> tuple[int, ...]:
        """See `Template`: the agents, which begin and end what their simulators do."""
        return tuple(chain.agent for chain in chains(layout))

    def reporters(self, layout: Layout) -> tuple[int, ...]:
        """See `Template`: the agents, each of all worlds of its simulators."""
        return self.leaders(layout)


TDG = Tdg()
