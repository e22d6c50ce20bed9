"""Whether a learner can learn a task on this machine: found out before anything is measured or trained."""

from gmi_drl.config import RunConfig, default_config
from gmi_drl.errors import UsageError
from gmi_drl.launch.describe import task_spec
from gmi_drl.learners import LEARNERS, LearnerConfig
from gmi_drl.task_names import ForeignTask, find_task
from gmi_drl.workload import TaskSpec


def usual_config(task: str, kind: str) -> tuple[TaskSpec, RunConfig]:
    """A task's sizes, and the configuration of a new run of it by a kind of learner on this machine.

    Raises:
        UsageError: if there is no such task or learner, or the one is not for the other.
        MachineError: if what the learner needs is not installed, which is found out before the task's simulator is
            started, or if that one is not.
    """
    LEARNERS.find(kind).require()
    spec = task_spec(task)
    config = default_config(spec, kind)
    require_learnable(config.learner, task)
    return spec, config


def require_learnable(learner: LearnerConfig, task: str) -> None:
    """Refuse a task that a learner says it cannot learn (`LearnerConfig.check`).

    Raises:
        UsageError: with every mistake.
    """
    groups = None if isinstance(find_task(task), ForeignTask) else ["policy"]
    if mistakes := learner.check(task_spec(task), groups):
        raise UsageError("; ".join(mistakes))
