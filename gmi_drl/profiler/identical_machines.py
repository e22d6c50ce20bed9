"""This machine and others like it, planned for by measurements of this one."""

from dataclasses import dataclass

from gmi_drl.config.run_config import RunConfig
from gmi_drl.errors import UsageError
from gmi_drl.hardware.cluster import Cluster
from gmi_drl.hardware.node import Node
from gmi_drl.hardware.signature import differences, signature_of
from gmi_drl.hardware.speeds import SpeedsByBackend
from gmi_drl.layout.cut import Cut
from gmi_drl.layout.layout import Layout, Projection
from gmi_drl.scheduler.agent_trainer_split import Division
from gmi_drl.templates import Decoupled, Template, devices_of, mapping_of
from gmi_drl.templates.cost import Communication
from gmi_drl.templates.over_nodes import OverNodes
from gmi_drl.units import counted
from gmi_drl.workload import TaskSpec


@dataclass(frozen=True)
class Machines:
    """The machines of a plan: this one, or several like it, each divided alike between agents and trainers.

    Args:
        task: The task to train.
        config: The configuration of the run.
        speeds: How fast GMIs of this machine reduce, by backend, as far as it was measured.
        node: This machine.
        cluster: All machines; None for this one alone.
    """

    task: TaskSpec
    config: RunConfig
    speeds: SpeedsByBackend
    node: Node
    cluster: Cluster | None = None

    @property
    def count(self) -> int:
        """How many machines there are."""
        return 1 if self.cluster is None else self.cluster.count

    def waits(self, cut: Cut, trainers: int) -> float:
        """Seconds of an update that the sums of gradients take, with `trainers` on each machine, by the model."""
        template = self._template(trainers)
        return self._communication(template, cut).seconds(template.trainers_of(mapping_of(cut, self._whole)))

    def layout(self, way: Division, projection: Projection, why: list[str]) -> Layout:
        """The layout of all machines, each divided in this way."""
        template, whole = self._template(way.trainers), self._whole
        communication = self._communication(template, way.cut)
        layout = template.lay_out(self.task, whole, way.cut, projection, why, communication)
        return layout.model_copy(update={"made_for": signature_of(whole)})

    def _communication(self, template: Template, cut: Cut) -> Communication:
        return template.communication(self.task, self.config.learner, self._whole, cut.backend, self.speeds)

    @property
    def _whole(self) -> Node:
        return self.node if self.cluster is None else self.cluster.whole

    def _template(self, trainers: int) -> Template:
        inner = Decoupled(trainers)
        return inner if self.cluster is None else OverNodes(inner, self.cluster)


def require_alike(cluster: Cluster, node: Node) -> None:
    """Refuse a cluster for which measurements of this machine do not hold.

    Raises:
        UsageError: if a machine of it differs from this one, with the differences.
    """
    remedy = "measure on a machine like all nodes, or nothing, without --budget"
    for part in cluster.nodes:
        if different := differences(signature_of(part.kind), signature_of(node)):
            raise UsageError(f"a plan {different}: {remedy}")
        (theirs, _), (ours, _) = devices_of(part.kind), devices_of(node)
        if theirs != ours:
            raise UsageError(f"{part.kind.name} has {counted(theirs, 'device')}, this machine {ours}: {remedy}")
