"""Gradients of a policy that is two MLPs and a Gaussian, without autograd."""

import torch
from torch import Tensor, nn

from gmi_drl.algo.backprop import Backprop
from gmi_drl.algo.distributions.gaussian import Gaussian
from gmi_drl.algo.networks import ActorCritic


class PlainGradient:
    """Densities and values of a batch, then the gradient of a loss of these, written into the bucket.

    With z the distance of an action from the mean in standard deviations, the log density changes by z / std with the
    mean and by z^2 - 1 with the logarithm of std, the entropy by 1 with the latter.

    Args:
        policy: With `is_plain`; parameters and gradients are views made by `FlatParameters`.

    Attributes:
        mean: Of the last batch's actions, `[B, A]`. The next batch writes over it.
    """

    mean: Tensor

    def __init__(self, policy: ActorCritic) -> None:
        assert isinstance(policy.actor, nn.Sequential) and isinstance(policy.critic, nn.Sequential)
        self._log_std = policy.log_std
        self._actor, self._critic = Backprop(policy.actor), Backprop(policy.critic)

    def forward(self, obs: Tensor, action: Tensor) -> tuple[Tensor, Tensor]:
        """Log densities `[B]` of the actions `[B, A]`, and values `[B]`, for normalised observations `[B, F]`."""
        self._acting, self._judging = self._actor.forward(obs), self._critic.forward(obs)
        self.mean = self._acting[-1]
        self._precision = (-self._log_std).exp()
        self._gap = action - self.mean
        self._distance = self._gap * self._precision
        return Gaussian.log_density(self._distance, self._log_std), self._judging[-1].squeeze(-1)

    def backward(self, by_log_prob: Tensor, by_value: Tensor, by_entropy: float) -> None:
        """Overwrite all gradients by those of a loss.

        Args:
            by_log_prob: How the loss changes with each log density of the last `forward`, `[B]`.
            by_value: And with each value, `[B]`.
            by_entropy: And with the entropy.
        """
        by_distance = self._distance.mul_(by_log_prob[:, None])
        by_log_std = torch.sum(self._gap.mul_(by_distance), 0).mul_(self._precision).sub_(by_log_prob.sum())
        assert self._log_std.grad is not None  # a view of the bucket
        torch.add(by_log_std, by_entropy, out=self._log_std.grad)
        self._actor.backward(self._acting, by_distance.mul_(self._precision))
        self._critic.backward(self._judging, by_value[:, None])
