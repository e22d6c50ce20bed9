"""What runs on the GMIs of a layout; of a training, everything that its layout and configuration name."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Self

from gmi_drl.config.learners import LEARNERS, LearnerConfig, LearnerEntry
from gmi_drl.config.run_config import RunConfig
from gmi_drl.config.task_names import find_task
from gmi_drl.config.task_settings import check_settings
from gmi_drl.errors import UsageError, told_with
from gmi_drl.launch.frozen_policies import FrozenPolicy, frozen_policies
from gmi_drl.launch.known_rooms import OnNode, rooms_of_groups, rooms_of_task
from gmi_drl.launch.policies import LearningPolicy, folders_of, learning_policies
from gmi_drl.launch.task_info import require_learnable, sizes_of
from gmi_drl.layout.layout import GMI, Layout
from gmi_drl.run.checkpoint import LEARNER_PART
from gmi_drl.run.folder import RunFolder
from gmi_drl.templates import Template, unchecked_template_for
from gmi_drl.workload import UNLIMITED_STEPS, TaskSpec

LOOKING = 0.1
"""The part of `hang_s` that a process may look for a request or an answer, in which it sees no end of its peer."""


@dataclass(frozen=True)
class Job:
    """What the GMIs of a layout run, and in which folder.

    Args:
        layout: The devices and their GMIs.
        config: How the GMIs train, and the deadline of their waits (`hang_s`).
        folder: The run folder. `RunFolder.create` must have made it when the GMIs start.
        roles: Where each GMI's role is, by the GMI's id: `FILE.py:CLASS` or `MODULE:CLASS`.
        slot_bytes: Shared memory per GMI and group; longer vectors are reduced in pieces.
        policies: Those that learn, or have learnt; empty: one policy of all agents.
    """

    layout: Layout
    config: RunConfig
    folder: RunFolder
    roles: Mapping[int, str]
    slot_bytes: int
    policies: tuple[LearningPolicy, ...] = field(default=(), kw_only=True)

    def folder_of(self, gmi_id: int) -> RunFolder:
        """The folder whose layout and configuration a GMI reads, and where it saves.

        Trainers and policy workers of one of several policies have a folder of their own.
        """
        return folders_of(self.policies, self.layout).get(gmi_id, self.folder)

    @property
    def frozen(self) -> tuple[FrozenPolicy, ...]:
        """The policies that act in this run, and learn nothing."""
        return frozen_policies(self.config.policies, self.folder)

    def frozen_on(self, node: str) -> tuple[FrozenPolicy, ...]:
        """The frozen policies by which GMIs of a node act: all if actors are there."""
        return self.frozen if any("simulator" in gmi.roles for gmi in self._gmis_on(node)) else ()

    def restored_on(self, node: str) -> list[RunFolder]:
        """The folders whose newest checkpoint GMIs of a node read: those of trainers; if nobody trains, all."""
        if not self.layout.with_role("trainer"):
            return self.folder.learning
        trainers = [gmi.id for gmi in self._gmis_on(node) if "trainer" in gmi.roles]
        return list(dict.fromkeys(map(self.folder_of, trainers)))

    def parts_on(self, node: str) -> frozenset[str] | None:
        """The parts of it that they read; None: all, since GMIs of a single node may deal out the rings of others."""
        if len(self.layout.nodes) == 1:
            return None
        return frozenset([LEARNER_PART, *(f"gmi-{gmi.id}" for gmi in self._gmis_on(node))])

    @property
    def rooms(self) -> list[OnNode]:
        """The memory of known size that the GMIs need, with the node of each."""
        return rooms_of_groups(self.layout, self.slot_bytes)

    def _gmis_on(self, node: str) -> list[GMI]:
        return [gmi for device in self.layout.devices_on(node) for gmi in device.gmis]

    def write_policies(self) -> None:
        """Write the setups of several policies into their folders, and copies of frozen ones into theirs."""
        for policy in self.policies:
            policy.write_setup()
        for frozen in self.frozen:
            frozen.copy()


@dataclass(frozen=True)
class TaskJob(Job):
    """A job whose GMIs act in a task.

    Args:
        task: The sizes of the layout's task.
    """

    task: TaskSpec

    @property
    def rooms(self) -> list[OnNode]:
        """See `Job`: also for experience and actions."""
        return [*super().rooms, *rooms_of_task(self.layout, self.config, self.task)]


@dataclass(frozen=True)
class TrainingJob(TaskJob):
    """A job that trains. `resolve` makes it, once per training.

    Args:
        template: The layout's template.
        learner: The registry's entry for the kind of learner.
    """

    template: Template
    learner: LearnerEntry

    def on(self, layout: Layout) -> Self:
        """The same training on another layout by the same template, such as one without a lost node."""
        policies = learning_policies(layout, self.config, self.folder, self.task)
        return replace(self, layout=layout, roles=self.template.roles(layout, self.learner), policies=policies)

    def within(self, folder: RunFolder) -> Self:
        """The same training in another folder."""
        return replace(self, folder=folder, policies=learning_policies(self.layout, self.config, folder, self.task))


def require_minibatches(learner: LearnerConfig, num_env: int) -> None:
    """Refuse more mini-batches than the rollouts of `num_env` environments can be divided into.

    Raises:
        UsageError: with both numbers.
    """
    units, wanted = learner.units_of(num_env), learner.minibatches
    if units < wanted:
        raise UsageError(
            f"a GMI learns from {units} {learner.unit} of {num_env} environments in {wanted} mini-batches: more "
            f"environments, or at most {units} mini-batches"
        )


def resolve(layout: Layout, config: RunConfig, folder: RunFolder) -> TrainingJob:
    """Look up what a layout and a configuration name, and refuse what cannot be trained.

    Raises:
        UsageError: with all mistakes of the layout and its policies: if there is no such task, its simulator cannot do
            what is set, the learner cannot learn it, or the numbers do not fit.
        MachineError: if the task's simulator, or what the learner needs, is not installed.
    """
    learner = LEARNERS.find(config.learner.kind)
    learner.require()
    if learner.on_one_host and len(layout.nodes) > 1:
        nodes = ", ".join(str(node) for node in layout.nodes)
        raise UsageError(f"{learner.name} trains on one host, the layout is over {nodes}: take one node, or --algo ppo")
    template = unchecked_template_for(layout, "training")
    mistakes = [*template.check(layout), *wait_mistakes(layout, config)]
    roles = {} if mistakes else template.roles(layout, learner)  # refuses learners that the template is not for
    if layout.task is None:
        raise UsageError("; ".join(mistakes))  # of the template
    with told_with(mistakes):
        found = find_task(layout.task)
        check_settings(
            found,
            on_gpu=any(device.kind == "gpu" for device in layout.devices),
            physics=config.physics,
            room=config.warp,
            tells_terms=config.reward_terms,
            settings=config.task,
        )
        task = sizes_of(found, config.task)
        if config.eval_every is not None and task.episode_steps >= UNLIMITED_STEPS:
            mistakes.append(f"eval_every plays whole episodes, and those of {task.name} have no limit: leave it out")
        mistakes += world_mistakes(layout, task)
        if config.policies and config.eval_every is not None:
            mistakes.append("eval_every plays one policy, and this run has several: leave it out")
        policies = learning_policies(layout, config, folder, task)
    for seen, own in [(one.layout, one.config) for one in policies] or [(layout, config)]:
        require_learnable(own.learner, found, task)
        require_minibatches(own.learner, own.learner.environments_of(seen))
        if mistakes := own.learner.mistakes_in(seen):
            raise UsageError("; ".join(mistakes))
    nbytes = max(one.learner.bucket_bytes(task) for one in (config, *(policy.config for policy in policies)))
    return TrainingJob(layout, config, folder, roles, nbytes, task, template, learner, policies=policies)


def world_mistakes(layout: Layout, task: TaskSpec) -> list[str]:
    """The GMI of a layout that does not have whole worlds of a task's agents, with the nearest numbers."""
    for gmi in layout.gmis:
        part = gmi.num_env // gmi.ring
        has, give = (f"{part} environments", "--num-env ") if gmi.ring == 1 else (f"{part} in each part", "each ")
        try:
            task.require_whole_worlds(part, f"GMI {gmi.id} has {has}: ", give)
        except UsageError as error:
            return [str(error)]
    return []


def wait_mistakes(layout: Layout, config: RunConfig) -> list[str]:
    """What is too long beside `hang_s`: the wait of a request for others of its batch, and looking without sleeping."""
    streams, hang_s, mistakes = layout.streams, config.hang_s, list[str]()
    if streams is None:
        return []
    if streams.wait_ms >= 1000 * hang_s:
        mistakes.append(f"streams.wait_ms is {streams.wait_ms:g}, and hang_s {hang_s:g}: let requests wait for less")
    if streams.spin_us > LOOKING * 1e6 * hang_s:
        most = f"a silence is told that much later: at most {LOOKING * 1e6 * hang_s:g}, {LOOKING:g} of hang_s"
        mistakes.append(f"streams.spin_us is {streams.spin_us:g}, and hang_s {hang_s:g}: {most}")
    return mistakes
