"""TCG, the template of serving: simulator and agent share a GMI (paper section 5.1, Table 4)."""

from collections.abc import Mapping, Sequence

from gmi_drl.cut import AnyCut
from gmi_drl.hardware import Node
from gmi_drl.layout import GmiGroup, Layout, Projection, Role
from gmi_drl.learners import OUR_PPO, LearnerConfig, LearnerEntry
from gmi_drl.mapping import MappingList
from gmi_drl.speeds import Speeds
from gmi_drl.templates.cost import NO_COMMUNICATION, Communication
from gmi_drl.templates.even import described, even_devices, shares_cores
from gmi_drl.templates.template import UNMEASURED, Purpose, channel_mistakes
from gmi_drl.workload import TaskSpec

SERVING: tuple[Role, ...] = ("simulator", "agent")
"""The roles of a serving GMI."""


class Tcg:
    """See `Template`."""

    name = "TCG"
    what = "simulator and agent share a GMI, so nothing crosses its border (paper section 5.1)"
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
        """See `Template`: each device is cut evenly."""
        devices = even_devices(node, cut, SERVING)
        reasons = (*why, described(devices, cut, node), f"{self.name}: {self.what}")
        return Layout(
            task=task.name,
            template=self.name,
            backend=cut.backend,
            share_cores=cut.share_cores and shares_cores(devices),
            devices=devices,
            projection=projection,
            reasons=reasons,
        )

    def groups(self, mapping: MappingList, architecture: str) -> dict[str, GmiGroup]:
        """See `Template`: each is on its own."""
        return {}

    def check(self, layout: Layout) -> list[str]:
        """See `Template`."""
        mistakes = []
        if layout.task is None:
            mistakes.append(f"{self.name} needs a task, this layout names none")
        if others := [gmi.id for gmi in layout.gmis if gmi.roles != SERVING]:
            mistakes.append(
                f"{self.name} needs {' and '.join(SERVING)} on every GMI and no other role: see GMIs {others}"
            )
        if layout.groups:
            mistakes.append(f"{self.name} has no groups, this layout has {', '.join(layout.groups)}")
        return [*mistakes, *channel_mistakes(self.name, layout)]

    def communication(
        self, task: TaskSpec, learner: LearnerConfig, node: Node, speeds: Speeds | None = None
    ) -> Communication:
        """See `Template`: COM = 0 (Table 4)."""
        return NO_COMMUNICATION

    def roles(self, layout: Layout, learner: LearnerEntry) -> Mapping[int, str]:
        """See `Template`."""
        return {gmi.id: "gmi_drl.roles.server:Server" for gmi in layout.gmis}

    def probe(self, learner: LearnerEntry) -> str | None:
        """See `Template`: nobody learns, whatever has."""
        return "gmi_drl.roles.serving_probe:ServingProbe"

    def leaders(self, layout: Layout) -> tuple[int, ...]:
        """See `Template`: all."""
        return tuple(gmi.id for gmi in layout.gmis)

    def reporters(self, layout: Layout) -> tuple[int, ...]:
        """See `Template`: all."""
        return tuple(gmi.id for gmi in layout.gmis)


TCG = Tcg()
