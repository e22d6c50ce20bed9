"""TCG, the template of serving: simulator and agent share a GMI (paper section 5.1, Table 4)."""

from collections.abc import Mapping

from gmi_drl.config.learners import LearnerEntry
from gmi_drl.hardware.node import Node
from gmi_drl.layout.cut import AnyCut
from gmi_drl.layout.layout import Device, Layout, Role
from gmi_drl.templates.even import even_devices
from gmi_drl.templates.template import Purpose, Template

SERVING: tuple[Role, ...] = ("simulator", "agent")
"""The roles of a serving GMI."""


class Tcg(Template):
    """See `Template`. Its GMIs are alike."""

    name = "TCG"
    what = "simulator and agent share a GMI, so nothing crosses its border (paper section 5.1)"
    purpose: Purpose = "serving"

    def devices(self, node: Node, cut: AnyCut) -> tuple[Device, ...]:
        """See `Template`."""
        return even_devices(node, cut, SERVING)

    def role_mistakes(self, layout: Layout) -> list[str]:
        """See `Template`."""
        others = [gmi.id for gmi in layout.gmis if gmi.roles != SERVING]
        needs = f"{self.name} needs {' and '.join(SERVING)} on every GMI and no other role"
        return [f"{needs}: see GMIs {others}"] if others else []

    def roles(self, layout: Layout, learner: LearnerEntry) -> Mapping[int, str]:
        """See `Template`."""
        return {gmi.id: "gmi_drl.roles.serving.server:Server" for gmi in layout.gmis}

    def probe(self, learner: LearnerEntry) -> str | None:
        """See `Template`: the same for all learners, since nothing is learnt."""
        return "gmi_drl.roles.probes.serving_probe:ServingProbe"


TCG = Tcg()
