"""What a template is: how the roles of a workload lie on GMIs (paper section 5.1)."""

from collections.abc import Mapping, Sequence
from typing import Literal, Protocol

from gmi_drl.cut import AnyCut
from gmi_drl.hardware import Node
from gmi_drl.layout import GmiGroup, Layout, Projection
from gmi_drl.learners import LearnerConfig, LearnerEntry
from gmi_drl.mapping import MappingList
from gmi_drl.speeds import Speeds
from gmi_drl.templates.cost import Communication
from gmi_drl.workload import TaskSpec

Purpose = Literal["training", "serving"]

UNMEASURED = Projection(measured=False)


def channel_mistakes(name: str, layout: Layout) -> list[str]:
    """Why a layout that has channels is none of a template by which nothing goes through any."""
    return [] if layout.channels is None else [f"{name} has no channels, this layout has some: leave them out"]


class Template(Protocol):
    """An entry of `TEMPLATES`: pure data in, pure data out. Layouts name it.

    Attributes:
        name: As layouts have it.
        what: In words.
        purpose: Which command runs its layouts: `gmi-drl train` or `gmi-drl serve`.
        usual_learner: The kind of learner where nobody says (`learners.LEARNERS`).
        planner: `module:function` that plans it by measuring, with arguments as of `profiler.planning.plan_here` has
            them, where its GMIs are not alike; None where one probe measures them all.
    """

    name: str
    what: str
    purpose: Purpose
    usual_learner: str
    planner: str | None

    def lay_out(
        self,
        task: TaskSpec,
        node: Node,
        cut: AnyCut,
        projection: Projection = UNMEASURED,
        why: Sequence[str] = (),
        communication: Communication | None = None,
    ) -> Layout:
        """The layout of a cut, with its groups and its reasons.

        Args:
            task: What is run.
            node: Where.
            cut: How each device is cut, or those of each model.
            projection: What is expected of it.
            why: Reasons that go before those of its form.
            communication: Decides how groups reduce; without it they do what is usual.

        Raises:
            NoFeasiblePlanError: if the node cannot hold so many GMIs.
        """

    def groups(self, mapping: MappingList, architecture: str) -> dict[str, GmiGroup]:
        """The groups that the GMIs of these devices form on a host with such a processor."""

    def check(self, layout: Layout) -> list[str]:
        """Why a layout that names this template is none of its kind, each mistake in a sentence; empty if it is."""

    def communication(
        self, task: TaskSpec, learner: LearnerConfig, node: Node, speeds: Speeds | None = None
    ) -> Communication:
        """What crosses the borders of GMIs in one iteration, at speeds that were measured on the node."""

    def roles(self, layout: Layout, learner: LearnerEntry) -> Mapping[int, str]:
        """`module:class` of each GMI's role (`roles.drl_role.DRL_role`), by its id.

        One that trains reports and returns what `roles.holistic.Holistic` does, one that serves what
        `roles.server.Server` does.
        """

    def probe(self, learner: LearnerEntry) -> str | None:
        """`module:class` of the role that measures one iteration of its GMIs (`roles.probe.Probe`).

        None if it is the learner's to say and that brings none, and for every learner if its GMIs are unlike, so that
        one of them does not tell how a cut runs: its cuts are not measured before they run.
        """

    def leaders(self, layout: Layout) -> tuple[int, ...]:
        """The GMIs that the launcher speaks to, and whose results tell how it went."""

    def reporters(self, layout: Layout) -> tuple[int, ...]:
        """The GMIs that report an iteration: their rows together are one of the run's metrics."""
