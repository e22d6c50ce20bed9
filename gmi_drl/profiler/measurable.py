"""Decides what is measured for a learner: the learner itself, or our PPO if it has no probe."""

from collections.abc import Callable

from gmi_drl.config.learners import LEARNERS, PPOConfig
from gmi_drl.config.run_config import RunConfig
from gmi_drl.templates import Template
from gmi_drl.workload import TaskSpec

KEPT = ("horizon", "epochs", "minibatches", "hidden", "reward_scale")
"""Settings that PPO takes from the learner if it is measured in its place."""


def measurable(
    task: TaskSpec, config: RunConfig, template: Template, tell: Callable[[str], None] = lambda line: None
) -> RunConfig:
    """The configuration to measure: this one, or one with our PPO as learner, which a line to `tell` says.

    Raises:
        MachineError: if this machine lacks what the learner needs, also if PPO is measured in its place.
    """
    entry = LEARNERS.find(config.learner.kind)
    entry.require()
    if template.probe(entry) is None:
        tell(f"{entry.name} has no probe: the speed and memory of our PPO are measured in its place")
        kept = {name: getattr(config.learner, name) for name in KEPT}
        return config.model_copy(update={"learner": PPOConfig.for_task(task).model_copy(update=kept)})
    return config
