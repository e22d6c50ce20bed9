"""What is trained: sizes of tasks and suitable settings, spaces, observations as tensors, sizes of networks."""

from gmi_drl.workload.specs import (
    AGREED,
    MOST_ENVIRONMENTS,
    MUJOCO,
    MUJOCO_SPECS,
    TASK_SPECS,
    UNLIMITED_STEPS,
    TaskSpec,
    spec_of,
)

__all__ = [
    "AGREED",
    "MOST_ENVIRONMENTS",
    "MUJOCO",
    "MUJOCO_SPECS",
    "TASK_SPECS",
    "UNLIMITED_STEPS",
    "TaskSpec",
    "spec_of",
]
