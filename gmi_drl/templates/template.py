"""What a template is: how the roles of a workload lie on GMIs (paper section 5.1)."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Literal

from gmi_drl.config.learners import OUR_PPO, LearnerConfig, LearnerEntry
from gmi_drl.hardware.node import Node
from gmi_drl.hardware.speeds import SpeedsByBackend
from gmi_drl.layout.backends import BACKENDS, PROCESS
from gmi_drl.layout.cut import AnyCut
from gmi_drl.layout.layout import Channels, Device, GmiGroup, Layout, Projection
from gmi_drl.layout.mapping import MappingList
from gmi_drl.layout.reduction_method import Kind, ReductionMethod
from gmi_drl.layout.reductions import IPC, NONE, usual_reduction
from gmi_drl.templates.cost import NO_COMMUNICATION, NO_TIME, UNTRIED, Communication
from gmi_drl.templates.even import described, shares_cores
from gmi_drl.workload import TaskSpec

Purpose = Literal["training", "serving"]

UNMEASURED = Projection(measured=False)

TRAINERS = "trainers"
"""The group of the GMIs whose gradients are summed: the one of a training, none is in serving."""


class Template(ABC):
    """An entry of `TEMPLATES`: pure data in, pure data out. Layouts name it.

    What is here is usual: a training sums its gradients in one group, whose first rank the launcher speaks to; in
    serving nothing is summed, and all that act are spoken to.

    Attributes:
        name: As layouts have it.
        what: In words.
        purpose: Which command runs its layouts: `gmi-drl train` or `gmi-drl serve`.
        usual_learner: The kind of learner where nobody says (`learners.LEARNERS`).
        planner: `module:function` that plans it by measuring, where its GMIs are not alike, with arguments as of
            `profiler.planning.plan_here`, and the `cluster` whose nodes are like this machine; None where one probe
            measures them all.
        channels: By which experience gets to other GMIs; None if none does so.
    """

    name: str
    what: str
    purpose: Purpose
    usual_learner: str = OUR_PPO.name
    planner: str | None = None
    channels: Channels | None = None

    @abstractmethod
    def devices(self, node: Node, cut: AnyCut) -> tuple[Device, ...]:
        """The devices of a node, cut, and who does what on them.

        Raises:
            NoFeasiblePlanError: if the node cannot hold so many GMIs, or they are too few.
        """

    @abstractmethod
    def roles(self, layout: Layout, learner: LearnerEntry) -> Mapping[int, str]:
        """`module:class` of each GMI's role (`roles.drl_role.DRL_role`), by its id.

        One that trains reports and returns what `roles.holistic.Holistic` does, one that serves what
        `roles.server.Server` does.

        Raises:
            UsageError: if it is not for such a learner.
        """

    @abstractmethod
    def role_mistakes(self, layout: Layout) -> list[str]:
        """What is wrong with who does what on which GMI, each mistake in a sentence."""

    def group_mistakes(self, layout: Layout) -> list[str]:
        """What is wrong with the groups where roles are right: all that train must stay alike."""
        training = tuple(gmi.id for gmi in layout.with_role("trainer"))
        wanted = {TRAINERS: training} if training else {}
        groups = {name: tuple(sorted(group.members)) for name, group in layout.groups.items()}
        if groups == wanted:
            return []
        needs = f"needs the one group {wanted}" if wanted else "has no groups"
        return [f"{self.name} {needs}, this layout has {groups}"]

    def trainers_of(self, mapping: MappingList) -> MappingList:
        """Of the GMIs of each device those that train, on some perhaps none: all, or nobody in serving."""
        return mapping if self.purpose == "training" else []

    def usual(self, training: MappingList, node: Node, backend: str) -> ReductionMethod:
        """How these reduce where nothing is known of speeds."""
        kind: Kind = "gpu" if node.num_gpus else "cpu"
        return usual_reduction(training, node.cpu.architecture, kind, maps_memory=BACKENDS.find(backend).maps_memory)

    def form(self, devices: Sequence[Device], cut: AnyCut, node: Node) -> list[str]:
        """What a layout of such devices is, in a sentence or more."""
        return [described(devices, cut, node), f"{self.name}: {self.what}"]

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
            communication: Decides how groups reduce, for GMIs of the cut's backend; without it they do what is usual.

        Raises:
            NoFeasiblePlanError: as of `devices`.
        """
        devices = self.devices(node, cut)
        training = self.trainers_of([[gmi.id for gmi in device.gmis] for device in devices])
        sums = communication if communication and communication.reduces else None
        method = sums.method(training) if sums else self.usual(training, node, cut.backend)
        reasons = [*why, *self.form(devices, cut, node)]
        if method is not NONE:
            reasons.append(f"{method.name}: {method.how}")
        if method is not NONE and sums:
            reasons.append(sums.why(training))
        elif method is IPC:
            reasons.append(UNTRIED)
        return Layout(
            task=task.name,
            template=self.name,
            backend=cut.backend,
            share_cores=cut.share_cores and shares_cores(devices),
            devices=devices,
            groups=all_in_one(training, method),
            channels=self.channels,
            projection=projection,
            reasons=tuple(reasons),
        )

    def groups(self, mapping: MappingList, node: Node, backend: str = PROCESS.name) -> dict[str, GmiGroup]:
        """The groups that the GMIs of these devices form where nothing is known of speeds."""
        training = self.trainers_of(mapping)
        return all_in_one(training, self.usual(training, node, backend))

    def check(self, layout: Layout) -> list[str]:
        """Why a layout that names this template is none of its kind, each mistake in a sentence; empty if it is."""
        mistakes = [] if layout.task is not None else [f"{self.name} needs a task, this layout names none"]
        mistakes += self.role_mistakes(layout) or self.group_mistakes(layout)
        if self.channels is None and layout.channels is not None:
            mistakes.append(f"{self.name} has no channels, this layout has some: leave them out")
        return mistakes

    def communication(
        self,
        task: TaskSpec,
        learner: LearnerConfig,
        node: Node,
        backend: str = PROCESS.name,
        speeds: SpeedsByBackend | None = None,
    ) -> Communication:
        """What crosses the borders of GMIs in one iteration, at the speeds that were measured of their backend.

        Usually gradients, once for every mini-batch (Table 5), and nothing in serving: COM = 0 (Table 4).
        """
        if self.purpose == "serving":
            return NO_COMMUNICATION
        return Communication(
            reduces=learner.epochs * learner.minibatches,
            bucket_bytes=learner.bucket_bytes(task),
            architecture=node.cpu.architecture,
            kind="gpu" if node.num_gpus else "cpu",
            speeds=(speeds or {}).get(backend),
            maps_memory=BACKENDS.find(backend).maps_memory,
            untried=UNTRIED if speeds is None else NO_TIME,
        )

    def probe(self, learner: LearnerEntry) -> str | None:
        """`module:class` of the role that measures one iteration of its GMIs (`roles.probe.Probe`).

        None if it is the learner's to say and that brings none, and for every learner if its GMIs are unlike, so that
        one of them does not tell how a cut runs: its cuts are not measured before they run.
        """
        return None

    def leaders(self, layout: Layout) -> tuple[int, ...]:
        """The GMIs that the launcher speaks to, and whose results tell how it went.

        In a training rank 0, whose answer counts for all in the exchange of every iteration.
        """
        return self.reporters(layout)[: 1 if self.purpose == "training" else None]

    def succeeded(self, layout: Layout) -> frozenset[int]:
        """The GMIs whose process may die and be started again while the others go on; usually none."""
        return frozenset()

    def reporters(self, layout: Layout) -> tuple[int, ...]:
        """The GMIs that report an iteration: their rows together are one of the run's metrics.

        Trainers, by rank, also for who simulates and acts for them; in serving agents.
        """
        if self.purpose == "training":
            return layout.groups[TRAINERS].members
        return tuple(gmi.id for gmi in layout.with_role("agent"))


def all_in_one(training: MappingList, method: ReductionMethod) -> dict[str, GmiGroup]:
    """The one group of all that train, empty in serving."""
    members = tuple(chain.from_iterable(training))
    return {TRAINERS: GmiGroup(members=members, reduction=method.name)} if members else {}
