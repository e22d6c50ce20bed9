"""What is to be trained: sizes that planning needs, without importing a simulator."""

from dataclasses import dataclass


@dataclass(frozen=True)
class TaskSpec:
    """The sizes of a task (paper Table 6).

    Args:
        name: The task's name in commands and files.
        alias: The paper's abbreviation.
        num_obs: Length of one observation.
        num_actions: Length of one action, each in [-1, 1].
        hidden: Widths of the hidden layers; the policy and the value network have the same.
        episode_steps: Control steps after which an episode is truncated.
        step_s: Simulated seconds per control step.
    """

    name: str
    alias: str
    num_obs: int
    num_actions: int
    hidden: tuple[int, ...]
    episode_steps: int
    step_s: float


TASK_SPECS: dict[str, TaskSpec] = {
    "ant": TaskSpec("ant", "AT", 60, 8, (256, 128, 64), episode_steps=1000, step_s=1 / 60),
}
