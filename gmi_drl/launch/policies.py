"""Several policies of one run, trained or served: what each is to the launcher, and their folders in the run's."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gmi_drl.config.learners import LEARNERS
from gmi_drl.config.policies import agents_of
from gmi_drl.config.run_config import RunConfig, policy_config
from gmi_drl.errors import UsageError, told_with
from gmi_drl.launch.frozen_policies import source_of
from gmi_drl.layout.layout import Layout
from gmi_drl.layout.policies import layout_of, policy_names
from gmi_drl.layout.servers import actors_without_agent
from gmi_drl.run.checkpoint import list_checkpoints
from gmi_drl.run.folder import RunFolder
from gmi_drl.templates.workers import SERVED_WORKERS, row_mistakes
from gmi_drl.workload import TaskSpec


@dataclass(frozen=True)
class LearningPolicy:
    """A policy that learns. Its folder is that of a run with this policy alone: `play` and `export` take it.

    Args:
        name: Of the policy.
        layout: As this policy sees it (`layout.policies.layout_of`).
        config: Of a run with this policy alone.
        folder: In the folder of the run.
        task: The sizes of the run's task.
    """

    name: str
    layout: Layout
    config: RunConfig
    folder: RunFolder
    task: TaskSpec

    def write_setup(self) -> None:
        """Write the layout, the configuration and the task as this policy sees them. A new run's folder is made."""
        if not list_checkpoints(self.folder.checkpoints):
            self.folder.create()
        self.folder.write_setup(self.layout, self.config)
        self.folder.write_task(self.task)


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
    learning, mistakes = _learning(config), list[str]()
    if not learning:
        mistakes.append("every policy has a checkpoint, so none learns: leave that of one out")
    elif sorted(named) != sorted(learning):
        mistakes.append(
            f"policies {', '.join(learning)} learn, and the layout has trainers of "
            f"{', '.join(named) or '(none)'}: give each that learns a `policy` of its own in a layout of workers"
        )
    with told_with(mistakes):
        made = _seen_by_each(layout, config, folder, task)
        mistakes += _unlike(made)
    return made


def served_policies(layout: Layout, config: RunConfig, folder: RunFolder, task: TaskSpec) -> tuple[LearningPolicy, ...]:
    """The policies that have learnt in a run, on a layout for serving; empty if it has one policy of all agents.

    Args:
        layout: By `workers`, without trainers.
        config: Of the run.
        folder: Of what is served, not of the run.
        task: The sizes of the run's task.

    Raises:
        UsageError: with all mistakes: if policy workers do not have the policies of the run, or a frozen one is gone.
    """
    named = policy_names(layout)
    if not config.policies:
        if named:
            raise UsageError(f"the run has one policy, and the layout names {', '.join(named)}: leave `policy` out")
        return ()
    learning = _learning(config)
    if layout.template != SERVED_WORKERS.name:
        several = f"the run has several policies, {', '.join(learning)}"
        raise UsageError(f"{several}: serve it on a layout by `{SERVED_WORKERS.name}`, not by {layout.template}")
    mistakes = list[str]()
    if sorted(named) != sorted(learning if actors_without_agent(layout) else []):
        mistakes.append(
            f"policies {', '.join(learning)} have learnt, and the layout has policy workers of "
            f"{', '.join(named) or '(none)'}: give each a policy worker with its `policy`, or all actors an agent"
        )
    with told_with(mistakes):
        return _seen_by_each(layout, config, folder, task)


def _learning(config: RunConfig) -> list[str]:
    return [name for name, section in config.policies.items() if section.checkpoint is None]


def views_of(layout: Layout, config: RunConfig, task: TaskSpec) -> list[tuple[Layout, RunConfig]]:
    """Layout and configuration as each policy that learns sees them; as they are, if all agents have one policy."""
    return list(_views(layout, config, task).values()) if config.policies else [(layout, config)]


def _views(layout: Layout, config: RunConfig, task: TaskSpec) -> dict[str, tuple[Layout, RunConfig]]:
    agents = agents_of(config.policies, task.agent_names, task.name)
    return {
        name: (layout_of(layout, name, (len(agents[name]), task.agents)), policy_config(config, name))
        for name in _learning(config)
    }


def _seen_by_each(layout: Layout, config: RunConfig, folder: RunFolder, task: TaskSpec) -> tuple[LearningPolicy, ...]:
    """The policies that learn. Frozen ones are checked, and the rows of requests."""
    views = _views(layout, config, task)
    mistakes = [f"policy {name}: {one}" for name, (seen, _) in views.items() for one in row_mistakes(seen)]
    for name, section in config.policies.items():
        if section.checkpoint is not None:
            mistakes += _frozen_mistakes(name, source_of(section.checkpoint, folder.frozen(name)), task)
    if mistakes:
        raise UsageError("; ".join(mistakes))
    return tuple(LearningPolicy(name, *view, folder.policy(name), task) for name, view in views.items())


def _unlike(policies: Sequence[LearningPolicy]) -> list[str]:
    """The mistakes of rollouts that are unlike: all policies act in the same steps."""
    mistakes = []
    for what in ("horizon", "kind"):
        values = {policy.name: getattr(policy.config.learner, what) for policy in policies}
        if len(set(values.values())) > 1:
            mistakes.append(f"policies need the same learner.{what}, these have {values}")
    return mistakes


def _frozen_mistakes(name: str, folder: RunFolder, task: TaskSpec) -> list[str]:
    """Why a run has no policy to act with for the task's spaces; empty if it has."""
    key = f"policies.{name}.checkpoint"
    if not folder.layout_file.exists():
        return [f"{key}: {folder.path} is no run folder"]
    kind = folder.read_setup()[1].learner.kind
    if LEARNERS.find(kind).agent is None:
        return [f"{key}: {folder.path} was trained by {kind}, whose policies do not act beside others"]
    try:
        folder.require_task(task)
        folder.newest_checkpoint()
    except UsageError as error:
        return [f"{key}: {error}"]
    return []


def folders_of(policies: Sequence[LearningPolicy], layout: Layout) -> Mapping[int, RunFolder]:
    """The folders that trainers and policy workers of each policy take for their run's, by the ids of these GMIs."""
    folders = {policy.name: policy.folder for policy in policies}
    return {gmi.id: folders[gmi.policy] for gmi in layout.gmis if gmi.policy is not None}
