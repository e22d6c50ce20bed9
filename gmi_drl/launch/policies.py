"""Several policies of one training: what each of them is to the launcher, and their folders in the run's."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from gmi_drl.config.learners import LEARNERS
from gmi_drl.config.policies import agents_of
from gmi_drl.config.run_config import RunConfig, policy_config
from gmi_drl.errors import UsageError
from gmi_drl.layout.layout import Layout
from gmi_drl.layout.policies import layout_of, policy_names
from gmi_drl.run.checkpoint import list_checkpoints
from gmi_drl.run.folder import RunFolder
from gmi_drl.workload import TaskSpec


@dataclass(frozen=True)
class LearningPolicy:
    """A policy that learns. Its folder is that of a run with this policy alone: `play` and `export` take it.

    Args:
        name: Of the policy.
        layout: As this policy sees it (`layout.policies.layout_of`).
        config: Of a run with this policy alone.
        folder: In the folder of the run.
    """

    name: str
    layout: Layout
    config: RunConfig
    folder: RunFolder

    def write_setup(self, task: TaskSpec) -> None:
        """Write the layout, the configuration and the task as this policy sees them. A new run's folder is made."""
        if not list_checkpoints(self.folder.checkpoints):
            self.folder.create()
        self.folder.write_setup(self.layout, self.config)
        self.folder.write_task(task)


def learning_policies(
    layout: Layout, config: RunConfig, folder: RunFolder, task: TaskSpec
) -> tuple[LearningPolicy, ...]:
    """The policies that learn; empty if the run has one policy of all agents.

    Raises:
        UsageError: with the mistakes of layout, configuration or task that do not fit each other.
    """
    named = policy_names(layout)
    if not config.policies:
        if named:
            raise UsageError(
                f"the layout has the policies {', '.join(named)}: name their agents in policies of config.yaml"
            )
        return ()
    agents = agents_of(config.policies, task.agent_names, task.name)
    frozen = [name for name, section in config.policies.items() if section.checkpoint is not None]
    learning = [name for name in config.policies if name not in frozen]
    if not learning:
        raise UsageError("every policy has a checkpoint, so none learns: leave that of one out")
    if sorted(named) != sorted(learning):
        raise UsageError(
            f"policies {', '.join(learning)} learn, and the layout has trainers of "
            f"{', '.join(named) or '(none)'}: give each that learns a `policy` of its own in a layout of workers"
        )
    for name in frozen:
        _require_frozen(name, Path(str(config.policies[name].checkpoint)), task)
    made = tuple(
        LearningPolicy(
            name,
            layout_of(layout, name, (len(agents[name]), task.agents)),
            policy_config(config, name),
            folder.policy(name),
        )
        for name in learning
    )
    _require_alike(made)
    return made


def _require_alike(policies: Sequence[LearningPolicy]) -> None:
    """Refuse rollouts of unlike lengths: all policies act in the same steps."""
    for what in ("horizon", "kind"):
        values = {policy.name: getattr(policy.config.learner, what) for policy in policies}
        if len(set(values.values())) > 1:
            raise UsageError(f"policies need the same learner.{what}, these have {values}")


def _require_frozen(name: str, run: Path, task: TaskSpec) -> None:
    """Refuse a run that has no policy to act with for the task's spaces."""
    key, folder = f"policies.{name}.checkpoint", RunFolder(run)
    if not folder.layout_file.exists():
        raise UsageError(f"{key}: {run} is no run folder")
    kind = folder.read_setup()[1].learner.kind
    if LEARNERS.find(kind).agent is None:
        raise UsageError(f"{key}: {run} was trained by {kind}, whose policies do not act beside others")
    try:
        folder.require_task(task)
        folder.newest_checkpoint()
    except UsageError as error:
        raise UsageError(f"{key}: {error}") from None


def folders_of(policies: Sequence[LearningPolicy], layout: Layout) -> Mapping[int, RunFolder]:
    """The folders that trainers and policy workers of each policy take for their run's, by the ids of these GMIs."""
    folders = {policy.name: policy.folder for policy in policies}
    return {gmi.id: folders[gmi.policy] for gmi in layout.gmis if gmi.policy is not None}
