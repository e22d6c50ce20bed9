"""TCG_EX, the template of synchronous training: every GMI is holistic (paper section 5.1, Figure 6a)."""

from collections.abc import Mapping

from gmi_drl.config.learners import LearnerEntry
from gmi_drl.errors import UsageError
from gmi_drl.hardware.node import Node
from gmi_drl.layout.cut import AnyCut
from gmi_drl.layout.layout import HOLISTIC, Device, Layout
from gmi_drl.templates.even import even_devices
from gmi_drl.templates.template import Purpose, Template


class TcgEx(Template):
    """See `Template`. Its GMIs are alike."""

    name = "TCG_EX"
    what = "simulator, agent and trainer share a GMI, so only gradients cross its border (paper section 5.1)"
    purpose: Purpose = "training"

    def devices(self, node: Node, cut: AnyCut) -> tuple[Device, ...]:
        """See `Template`."""
        return even_devices(node, cut, HOLISTIC)

    def role_mistakes(self, layout: Layout) -> list[str]:
        """See `Template`."""
        partial = [gmi.id for gmi in layout.gmis if gmi.roles != HOLISTIC]
        needs = f"{self.name} needs all of {', '.join(HOLISTIC)} on every GMI"
        return [f"{needs}, which GMIs {partial} lack"] if partial else []

    def roles(self, layout: Layout, learner: LearnerEntry) -> Mapping[int, str]:
        """See `Template`. UsageError for learners without a role that both acts and trains."""
        if learner.role is None:
            raise UsageError(f"{learner.name} learns from agents on other GMIs: --template decoupled")
        return dict.fromkeys((gmi.id for gmi in layout.gmis), learner.role)

    def probe(self, learner: LearnerEntry) -> str | None:
        """See `Template`: the probe of the learner."""
        return learner.probe


TCG_EX = TcgEx()
