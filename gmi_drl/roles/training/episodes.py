"""Episodes of environments over iterations: running returns and lengths, and when the first ones end."""

import torch
from torch import Tensor

from gmi_drl.tasks import Task


class Episodes:
    """Goes on with the returns and lengths of episodes, and sums up those that end.

    Args:
        num_env: N.
        device: Of all tensors.

    Attributes:
        running: Returns and lengths so far of the episodes that have not ended, `[2, N]`.
    """

    def __init__(self, num_env: int, device: torch.device) -> None:
        self.running = torch.zeros(2, num_env, device=device)

    def sum_up(self, reward: Tensor, done: Tensor, valid: Tensor) -> Tensor:
        """Count T steps `[T, N]` in.

        Returns:
            Sum of rewards, number of episodes that ended by a valid step, sums of their returns and lengths, float64
            `[4]`.
        """
        so_far = torch.stack((reward, torch.ones_like(reward)), 1)  # [T, 2, N]
        for now, goes_on in zip(so_far, 1 - done, strict=True):
            torch.mul(now.add_(self.running), goes_on, out=self.running)
        ended = done * valid
        sums = (so_far * ended[:, None]).sum((0, 2), dtype=torch.float64)
        return torch.stack((reward.double().sum(), ended.sum(), *sums))


def stagger(task: Task, generator: torch.Generator) -> None:
    """Let first episodes time out at different steps, as rsl_rl can: otherwise all time out in the same step."""
    if task.counts_by_itself:
        return
    steps, shape = (0, task.spec.episode_steps), task.episode_length.shape
    task.episode_length.copy_(torch.randint(*steps, shape, generator=generator, device=task.device))
