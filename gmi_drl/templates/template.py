"""The base class of templates: which GMI has which roles of a workload (paper section 5.1)."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Literal

from gmi_drl.config.learners import OUR_PPO, LearnerConfig, LearnerEntry
from gmi_drl.hardware.node import Node
from gmi_drl.hardware.speeds import SpeedsByBackend
from gmi_drl.layout.backends import BACKENDS, PROCESS
from gmi_drl.layout.channels import Channels, Streams
from gmi_drl.layout.cut import AnyCut
from gmi_drl.layout.layout import Device, GmiGroup, Layout, Projection
from gmi_drl.layout.mapping import MappingList
from gmi_drl.layout.policies import TRAINERS, group_of, policy_names
from gmi_drl.layout.reduction_method import Kind, ReductionMethod
from gmi_drl.layout.reductions import IPC, NONE, usual_reduction
from gmi_drl.templates.cost import NO_COMMUNICATION, NO_TIME, UNTRIED, Communication
from gmi_drl.templates.even import described, shares_cores, usual_gmis_per_gpu
from gmi_drl.workload import TaskSpec

Purpose = Literal["training", "serving"]

UNMEASURED = Projection(measured=False)


class Template(ABC):
    """An entry of `TEMPLATES`, which layouts name. Pure data in, pure data out.

    The defaults here are: a training sums its gradients in one group, and the launcher sends commands to its first
    rank; in serving nothing is summed, and the launcher sends commands to all agents.

    Attributes:
        name: The name in layouts.
        what: The template in words.
        purpose: `training` for `gmi-drl train`, `serving` for `gmi-drl serve`.
        usual_learner: The default kind of learner (`learners.LEARNERS`).
        planner: `module:function` that plans by measuring, if GMIs have different roles. It takes the arguments of
            `profiler.measured_plan.plan_here`, and a `cluster` whose nodes are like this machine. None if one probe
            measures all GMIs.
        profile_planner: `module:function` that plans described machines by a profile of each kind. It takes the task,
            the learner, the node or cluster, and the files. None if profiles have points of its GMIs.
        channels: The channels that carry experience to other GMIs; None if there are none.
        has_streams: Whether its layouts may have inference streams and rings.
        serving: The template of its layouts without trainers, for serving; None if there is none.
    """

    name: str
    what: str
    purpose: Purpose
    usual_learner: str = OUR_PPO.name
    planner: str | None = None
    profile_planner: str | None = None
    channels: Channels | None = None
    has_streams: bool = False
    serving: "Template | None" = None

    @abstractmethod
    def devices(self, node: Node, cut: AnyCut) -> tuple[Device, ...]:
        """The devices of a node, cut into GMIs with their roles.

        Raises:
            NoFeasiblePlanError: if the node cannot hold that many GMIs, or they are too few.
        """

    @abstractmethod
    def roles(self, layout: Layout, learner: LearnerEntry) -> Mapping[int, str]:
        """`module:class` of each GMI's role (`roles.drl_role.DRL_role`), by id.

        A role that trains reports and returns the same as `roles.training.holistic.Holistic`, one that serves the same
        as `roles.serving.server.Server`.

        Raises:
            UsageError: if the template does not support the learner.
        """

    @abstractmethod
    def role_mistakes(self, layout: Layout) -> list[str]:
        """The mistakes in the roles of a layout's GMIs, each in a sentence."""

    def group_mistakes(self, layout: Layout) -> list[str]:
        """The mistakes in the groups of a layout with right roles: all trainers must be in one group."""
        training = tuple(gmi.id for gmi in layout.with_role("trainer"))
        wanted = {TRAINERS: training} if training else {}
        groups = {name: tuple(sorted(group.members)) for name, group in layout.groups.items()}
        if groups == wanted:
            return []
        needs = f"needs the one group {wanted}" if wanted else "has no groups"
        return [f"{self.name} {needs}, this layout has {groups}"]

    def trainers_of(self, mapping: MappingList) -> MappingList:
        """The GMIs of each device that train; by default all in a training, none in serving."""
        return mapping if self.purpose == "training" else []

    def training_on(self, devices: Sequence[Device]) -> MappingList:
        """The GMIs of each device that train, of devices that `devices` has made."""
        return self.trainers_of([[gmi.id for gmi in device.gmis] for device in devices])

    def streams_of(self, devices: Sequence[Device]) -> Streams | None:
        """The inference streams that such devices need; by default none."""
        return None

    def usual_gmis_per_gpu(self, node: Node) -> int:
        """The default number of GMIs per device."""
        return usual_gmis_per_gpu(node)

    def usual(self, training: MappingList, node: Node, backend: str) -> ReductionMethod:
        """The reduction of these trainers if no speeds are known."""
        kind: Kind = "gpu" if node.num_gpus else "cpu"
        return usual_reduction(training, node.cpu.architecture, kind, maps_memory=BACKENDS.find(backend).maps_memory)

    def form(self, devices: Sequence[Device], cut: AnyCut, node: Node) -> list[str]:
        """A layout of these devices in words, one or more sentences."""
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
            task: The task to run.
            node: The machine.
            cut: How each device is cut, or the devices of each model.
            projection: The predicted or measured speed.
            why: Reasons before those of its form.
            communication: Chooses the reduction, for the cut's backend; None takes the usual one.

        Raises:
            NoFeasiblePlanError: as of `devices`.
        """
        devices = self.devices(node, cut)
        training = self.training_on(devices)
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
            streams=self.streams_of(devices),
            projection=projection,
            reasons=tuple(reasons),
        )

    def groups(self, mapping: MappingList, node: Node, backend: str = PROCESS.name) -> dict[str, GmiGroup]:
        """The groups of a mapping list if no speeds are known."""
        training = self.trainers_of(mapping)
        return all_in_one(training, self.usual(training, node, backend))

    def check(self, layout: Layout) -> list[str]:
        """The mistakes of a layout that names this template, each in a sentence; empty if it is valid."""
        mistakes = [] if layout.task is not None else [f"{self.name} needs a task, this layout names none"]
        mistakes += self.role_mistakes(layout) or self.group_mistakes(layout)
        if self.channels is None and layout.channels is not None:
            mistakes.append(f"{self.name} has no channels, this layout has some: leave them out")
        if not self.has_streams and layout.streams is not None:
            mistakes.append(f"{self.name} has no streams, this layout has some: leave them out, or take workers")
        if not self.has_streams and (rings := [gmi.id for gmi in layout.gmis if gmi.ring > 1]):
            mistakes.append(f"{self.name} has no rings, GMIs {rings} have some: leave them out, or take workers")
        if not self.has_streams and (named := [gmi.id for gmi in layout.gmis if gmi.policy is not None]):
            mistakes.append(f"{self.name} has one policy, GMIs {named} name one: leave that out, or take workers")
        return mistakes

    def communication(
        self,
        task: TaskSpec,
        learner: LearnerConfig,
        node: Node,
        backend: str = PROCESS.name,
        speeds: SpeedsByBackend | None = None,
    ) -> Communication:
        """What crosses the borders of GMIs in an iteration, with the speeds measured for their backend.

        By default gradients, once for every mini-batch (Table 5), and nothing in serving: COM = 0 (Table 4).
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
        """`module:class` of the role that measures one iteration of its GMIs (`roles.probes.probe.Probe`).

        None if the learner has no probe, or if GMIs have different roles, so that one of them does not represent a cut.
        """
        return None

    def leaders(self, layout: Layout) -> tuple[int, ...]:
        """The GMIs that the launcher sends commands to, and whose results it returns.

        In a training that is rank 0, whose decision counts for all in the exchange of every iteration.
        """
        return self.reporters(layout)[: 1 if self.purpose == "training" else None]

    def restartable(self, layout: Layout) -> frozenset[int]:
        """The GMIs whose process is restarted when it dies, while the others go on; by default none."""
        return frozenset()

    def reporters(self, layout: Layout) -> tuple[int, ...]:
        """The GMIs that report iterations. Their rows are merged into one row of the run's metrics.

        In a training these are the trainers, by rank, which also report for their simulators and agents; in serving the
        agents.
        """
        if self.purpose == "training":
            names = policy_names(layout) or (None,)
            return tuple(chain.from_iterable(layout.groups[group_of(name)].members for name in names))
        return tuple(gmi.id for gmi in layout.with_role("agent"))


def all_in_one(training: MappingList, method: ReductionMethod) -> dict[str, GmiGroup]:
    """The group of all trainers by its name; empty in serving."""
    members = tuple(chain.from_iterable(training))
    return {TRAINERS: GmiGroup(members=members, reduction=method.name)} if members else {}
