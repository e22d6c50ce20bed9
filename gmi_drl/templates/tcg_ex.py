"""TCG_EX, the template of synchronous training: every GMI is holistic (paper section 5.1, Figure 6a)."""

from collections.abc import Mapping, Sequence
from itertools import chain

from gmi_drl.cut import AnyCut
from gmi_drl.errors import UsageError
from gmi_drl.hardware import Node
from gmi_drl.layout import HOLISTIC, GmiGroup, Layout, Projection
from gmi_drl.learners import OUR_PPO, LearnerConfig, LearnerEntry
from gmi_drl.mapping import MappingList
from gmi_drl.reduction_method import ReductionMethod
from gmi_drl.reductions import NONE, usual_reduction
from gmi_drl.speeds import Speeds
from gmi_drl.templates.cost import Communication
from gmi_drl.templates.even import described, even_devices, shares_cores
from gmi_drl.templates.template import UNMEASURED, Purpose, channel_mistakes
from gmi_drl.workload import TaskSpec

TRAINERS = "trainers"
"""The group of the GMIs whose gradients are summed: all of them."""


class TcgEx:
    """See `Template`."""

    name = "TCG_EX"
    what = "simulator, agent and trainer share a GMI, so only gradients cross its border (paper section 5.1)"
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
        """See `Template`: each device is cut evenly."""
        devices = even_devices(node, cut, HOLISTIC)
        mapping = [[gmi.id for gmi in device.gmis] for device in devices]
        usual = usual_reduction(mapping, node.cpu.architecture)
        method = communication.method(mapping) if communication else usual
        reasons = [*why, described(devices, cut, node), f"{self.name}: {self.what}"]
        if method is not NONE:
            reasons.append(f"{method.name}: {method.how}")
        if method is not NONE and communication:
            reasons.append(communication.why(mapping))
        return Layout(
            task=task.name,
            template=self.name,
            backend=cut.backend,
            share_cores=cut.share_cores and shares_cores(devices),
            devices=devices,
            groups=all_in_one(mapping, method),
            projection=projection,
            reasons=tuple(reasons),
        )

    def groups(self, mapping: MappingList, architecture: str) -> dict[str, GmiGroup]:
        """See `Template`."""
        return all_in_one(mapping, usual_reduction(mapping, architecture))

    def check(self, layout: Layout) -> list[str]:
        """See `Template`: replicas must stay alike."""
        everyone = {TRAINERS: tuple(gmi.id for gmi in layout.gmis)}
        groups = {name: tuple(sorted(group.members)) for name, group in layout.groups.items()}
        mistakes = []
        if layout.task is None:
            mistakes.append(f"{self.name} needs a task, this layout names none")
        if partial := [gmi.id for gmi in layout.gmis if gmi.roles != HOLISTIC]:
            mistakes.append(f"{self.name} needs all of {', '.join(HOLISTIC)} on every GMI, which GMIs {partial} lack")
        if groups != everyone:
            mistakes.append(f"{self.name} needs the one group {everyone}, this layout has {groups}")
        if len({device.kind for device in layout.devices}) > 1:
            mistakes.append(
                f"{self.name} needs devices of one kind, this layout has cpu and gpu: the two round differently, so "
                "replicas would part, and only on a cpu does the bucket lie in the shared memory; give each kind a "
                "layout of its own"
            )
        return [*mistakes, *channel_mistakes(self.name, layout)]

    def communication(
        self, task: TaskSpec, learner: LearnerConfig, node: Node, speeds: Speeds | None = None
    ) -> Communication:
        """See `Template`: Table 5, once for every mini-batch."""
        return Communication(
            reduces=learner.epochs * learner.minibatches,
            bucket_bytes=learner.bucket_bytes(task),
            architecture=node.cpu.architecture,
            kind="gpu" if node.num_gpus else "cpu",
            speeds=speeds,
        )

    def roles(self, layout: Layout, learner: LearnerEntry) -> Mapping[int, str]:
        """See `Template`.

        Raises:
            UsageError: if the learner has no role that acts, too.
        """
        if learner.role is None:
            raise UsageError(f"{learner.name} learns from agents on other GMIs: --template decoupled")
        return dict.fromkeys((gmi.id for gmi in layout.gmis), learner.role)

    def probe(self, learner: LearnerEntry) -> str | None:
        """See `Template`: the learner's."""
        return learner.probe

    def leaders(self, layout: Layout) -> tuple[int, ...]:
        """See `Template`: rank 0, whose answer counts for all in the exchange of every iteration."""
        return layout.groups[TRAINERS].members[:1]

    def reporters(self, layout: Layout) -> tuple[int, ...]:
        """See `Template`: all."""
        return tuple(gmi.id for gmi in layout.gmis)


def all_in_one(mapping: MappingList, method: ReductionMethod) -> dict[str, GmiGroup]:
    """The group of all GMIs of a mapping list that train, and how they sum."""
    return {TRAINERS: GmiGroup(members=tuple(chain.from_iterable(mapping)), reduction=method.name)}


TCG_EX = TcgEx()
