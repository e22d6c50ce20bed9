"""The options of `gmi-drl plan` that decide what is planned, and which of them contradict each other."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from gmi_drl.cli.options import played_as
from gmi_drl.errors import UsageError

if TYPE_CHECKING:
    from gmi_drl.config.task_section import TaskSettings
    from gmi_drl.hardware.cluster import Cluster
    from gmi_drl.scheduler.objective import Objective
    from gmi_drl.templates import Template

RAY = "ray"


@dataclass(frozen=True)
class PlanOptions:
    """The options of `gmi-drl plan` that decide what is planned, as given."""

    task: str
    template: "Template"
    algo: str | None
    num_env: int | None
    gmis_per_gpu: int | None
    backend: str | None
    share_cores: bool
    keep_batch: int | None
    budget: float | None
    fresh: bool
    profiles: tuple[Path, ...]
    node: Path | None
    gpus: int | None
    objective: "Objective | None"
    cluster: Path | None = None
    settings: tuple[str, ...] = ()

    @cached_property
    def played(self) -> "TaskSettings":
        """The section `task` with the values of --set; see `options.played_as`."""
        return played_as(self.task, self.settings)

    @property
    def profile(self) -> Path | None:
        """The file of --profile; None if none is given.

        Raises:
            UsageError: if there are several.
        """
        if len(self.profiles) > 1:
            names = ", ".join(map(str, self.profiles))
            raise UsageError(f"--profile {names}: one profile has all points of {self.template.name}: give one")
        return self.profiles[0] if self.profiles else None

    @property
    def uses_measurements(self) -> bool:
        """Whether the plan goes by measurements, made now or read from a profile. If not, devices are cut evenly."""
        return bool(self.profiles) or (self.is_here and self.budget != 0) or self.measures_for_cluster

    @property
    def measures_for_cluster(self) -> bool:
        """Whether this machine is measured in place of a cluster's nodes: a template's planner does with --budget."""
        return bool(self.template.planner and self.cluster and self.budget)

    @property
    def is_here(self) -> bool:
        """Whether the plan is for this machine."""
        return self.node is None and self.cluster is None

    @cached_property
    def nodes(self) -> "Cluster":
        """The cluster of --cluster.

        Raises:
            UsageError: if the file describes none, or --node or --gpus is given, too.
        """
        from gmi_drl.hardware.cluster import load_cluster

        assert self.cluster is not None
        refuse("--cluster names the nodes", {"--node": self.node, "--gpus": self.gpus})
        if str(self.cluster) == RAY:
            from gmi_drl.launch.ray.describe import described_cluster

            return described_cluster()
        return load_cluster(self.cluster)


def refuse(why: str, excluded: Mapping[str, object]) -> None:
    """Refuse options that contradict another one.

    Raises:
        UsageError: if the value of one of them is not None.
    """
    given = [name for name, value in excluded.items() if value is not None]
    if given:
        raise UsageError(f"{', '.join(given)}: {why}: leave it out")
