"""Squared norms of the policy's gradient over few and over many samples, measured before an update."""

import torch
from torch import Tensor

from gmi_drl.algo.ppo import PPO
from gmi_drl.algo.rollout import Rollout, split


class GradientSquares:
    """Squared gradient norms, kept on the device, for `NoiseScale.estimated`.

    They are of the policy alone: the value network has another loss, whose noise would hide the policy's. At the policy
    that acted no ratio of probabilities is clipped, so PPO's gradient is the policy gradient.

    Args:
        ppo: Computes the gradients, in its bucket, which is free between two updates.
        parts: Number of parts that a rollout is cut into.
    """

    def __init__(self, ppo: PPO, parts: int) -> None:
        self._ppo, self._parts = ppo, parts
        self._kept: list[Tensor] = []

    def measure(self, rollout: Rollout, permutation: Tensor, mean: float, std: float) -> None:
        """Measure an evaluated rollout whose advantages are not normalised yet; `mean` and `std` are theirs."""
        batch = rollout.empty_batch()
        rollout.shuffle(permutation, batch, self._parts)
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
        """Pairs (mean over the parts, of the whole) of all updates since the last call. Waits for the device, once."""
        pairs = torch.stack(self._kept).tolist() if self._kept else []
        self._kept = []
        return [(small, large) for small, large in pairs]
