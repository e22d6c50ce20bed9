"""What is measured for a learner: itself, or our PPO in its place where it brings no probe."""

from collections.abc import Callable

from gmi_drl.config.learners import LEARNERS, PPOConfig
from gmi_drl.config.run_config import RunConfig
from gmi_drl.templates import Template
from gmi_drl.workload import TaskSpec

KEPT = ("horizon", "epochs", "minibatches", "hidden", "reward_scale")
"""What PPO has of the learner then."""


def measurable(
    task: TaskSpec, config: RunConfig, template: Template, tell: Callable[[str], None] = lambda line: None
) -> RunConfig:
    """The configuration to measure: this one, or with our PPO as its learner, which is told in a line.

    Raises:
        MachineError: if this machine lacks what the learner needs, also where another is measured in its place.
    """
    entry = LEARNERS.find(config.learner.kind)
    entry.require()
    if template.probe(entry) is None:
        tell(f"{entry.name} brings no probe: measuring our PPO, its speed and memory, in its place")
        kept = {name: getattr(config.learner, name) for name in KEPT}
        return config.model_copy(update={"learner": PPOConfig.for_task(task).model_copy(update=kept)})
    return config
