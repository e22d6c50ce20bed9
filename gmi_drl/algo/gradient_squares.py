"""Squared norms of the policy's gradient over few samples and over many, before an update changes the policy."""

import torch
from torch import Tensor

from gmi_drl.algo.ppo import PPO
from gmi_drl.algo.rollout import Rollout, split


class GradientSquares:
    """Keeps, on the device, what `NoiseScale.estimated` is made of.

    The policy's gradient alone: the value network's is of another loss, whose noise would hide it. At the policy that
    acted no ratio of probabilities is clipped, so PPO's gradient is that of the policy.

    Args:
        ppo: Whose gradients; its bucket is used, and is its own again at the next update.
        parts: In which a rollout is cut.
    """

    def __init__(self, ppo: PPO, parts: int) -> None:
        self._ppo, self._parts = ppo, parts
        self._kept: list[Tensor] = []

    def look(self, rollout: Rollout, permutation: Tensor, mean: float, std: float) -> None:
        """Take the squares of a judged rollout whose advantages are not yet normalised, by these statistics."""
        batch = rollout.empty_batch()
        rollout.shuffle(permutation, into=batch)
        batch.advantage.sub_(mean).div_(std + 1e-8).mul_(batch.valid)
        self._ppo.old_log_std.copy_(rollout.log_std)
        total: Tensor | None = None
        squares = torch.zeros((), device=permutation.device)
        for part in split(batch, self._parts):
            gradient = self._ppo.policy_gradient(part)
            squares += gradient.square().sum()
            total = gradient.clone() if total is None else total.add_(gradient)
        assert total is not None
        self._kept.append(torch.stack((squares / self._parts, (total / self._parts).square().sum())))

    def read(self) -> list[tuple[float, float]]:
        """The squares of all updates since the last call. Waits for the device, once."""
        pairs = torch.stack(self._kept).tolist() if self._kept else []
        self._kept = []
        return [(small, large) for small, large in pairs]
