"""Gradients of a policy that is two MLPs and a Gaussian or categories, without autograd."""

from typing import Protocol

import torch
from torch import Tensor, nn

from gmi_drl.algo.backprop import Backprop
from gmi_drl.algo.distributions import Categorical, Gaussian
from gmi_drl.algo.networks import ActorCritic


class DensityGradient(Protocol):
    """Log densities of a batch of actions, then the gradient of a loss of these and of the entropy."""

    entropy: Tensor | None
    """Of the last `forward`, `[B]`; None if it does not depend on the observation."""

    def forward(self, action: Tensor, params: Tensor) -> Tensor:
        """Log densities `[B]` of the actions `[B, A]`."""

    def backward(self, by_log_prob: Tensor, by_entropy: float, valid: Tensor) -> Tensor:
        """How the loss changes with the params of the last `forward`, `[B, P]`; see `PlainGradient.backward`."""


class GaussianGradient:
    """Of a Gaussian; also writes the gradient of the logarithms of its standard deviations.

    With z the distance of an action from the mean in standard deviations, the log density changes by z / std with the
    mean and by z^2 - 1 with the logarithm of std, the entropy by 1 with the latter.
    """

    entropy: Tensor | None = None

    def __init__(self, log_std: Tensor) -> None:
        self._log_std = log_std

    def forward(self, action: Tensor, params: Tensor) -> Tensor:
        """See `DensityGradient`."""
        self._precision = (-self._log_std).exp()
        self._gap = action - params
        self._distance = self._gap * self._precision
        return Gaussian.log_density(self._distance, self._log_std)

    def backward(self, by_log_prob: Tensor, by_entropy: float, valid: Tensor) -> Tensor:
        """See `DensityGradient`."""
        by_distance = self._distance.mul_(by_log_prob[:, None])
        by_log_std = torch.sum(self._gap.mul_(by_distance), 0).mul_(self._precision).sub_(by_log_prob.sum())
        assert self._log_std.grad is not None  # a view of the bucket
        torch.add(by_log_std, by_entropy, out=self._log_std.grad)
        return by_distance.mul_(self._precision)


class CategoricalGradient:
    """Of choices: the log density changes by 1 - p with the logit of what was chosen, by -p with the others.

    The entropy H of a choice changes by -p (log p + H) with each of its logits.
    """

    entropy: Tensor | None

    def __init__(self, distribution: Categorical) -> None:
        self._distribution = distribution

    def forward(self, action: Tensor, params: Tensor) -> Tensor:
        """See `DensityGradient`."""
        self._chosen = action.long()[..., None]
        self._logs = self._distribution.by_choice(params).log_softmax(-1)
        self._probabilities = self._logs.exp()
        self._of_choices = (self._probabilities * self._logs).sum(-1).neg_()
        self.entropy = self._of_choices.sum(-1)
        return self._logs.gather(-1, self._chosen).sum((-2, -1))

    def backward(self, by_log_prob: Tensor, by_entropy: float, valid: Tensor) -> Tensor:
        """See `DensityGradient`."""
        weight = by_log_prob[:, None, None]
        gradient = self._probabilities * -weight
        gradient.scatter_add_(-1, self._chosen, weight.expand_as(self._chosen))
        if by_entropy:
            change = self._logs.add_(self._of_choices[..., None]).mul_(self._probabilities)
            gradient.addcmul_(change, valid[:, None, None], value=-by_entropy / len(valid))
        return self._distribution.by_params(gradient)


class PlainGradient:
    """Densities and values of a batch, then the gradient of a loss of these, written into the bucket.

    Args:
        policy: With `is_plain`; parameters and gradients are views made by `FlatParameters`.

    Attributes:
        params: Of the last batch, `[B, P]`. The next batch writes over it.
    """

    params: Tensor

    def __init__(self, policy: ActorCritic) -> None:
        assert isinstance(policy.actor, nn.Sequential) and isinstance(policy.critic, nn.Sequential)
        self._actor, self._critic = (Backprop(one, bf16=policy.bf16) for one in (policy.actor, policy.critic))
        chosen = policy.distribution
        self._density: DensityGradient = (
            CategoricalGradient(chosen) if isinstance(chosen, Categorical) else GaussianGradient(policy.log_std)
        )

    def forward(self, obs: Tensor, action: Tensor) -> tuple[Tensor, Tensor]:
        """Log densities `[B]` of the actions `[B, A]`, and values `[B]`, for normalised observations `[B, F]`."""
        self._acting, self._judging = self._actor.forward(obs), self._critic.forward(obs)
        self.params = self._acting[-1]
        return self._density.forward(action, self.params), self._judging[-1].squeeze(-1)

    @property
    def entropy(self) -> tuple[Tensor, ...]:
        """Of the last `forward`, `[B]`, if it depends on the observation, else nothing."""
        return () if self._density.entropy is None else (self._density.entropy,)

    def backward(self, by_log_prob: Tensor, by_value: Tensor, by_entropy: float, valid: Tensor) -> None:
        """Overwrite all gradients by those of a loss.

        Args:
            by_log_prob: How the loss changes with each log density of the last `forward`, `[B]`.
            by_value: And with each value, `[B]`.
            by_entropy: And with the entropy, or its mean where it depends on the observation: 0 of what is not valid.
            valid: 1 for each valid sample, else 0, `[B]`.
        """
        self._actor.backward(self._acting, self._density.backward(by_log_prob, by_entropy, valid))
        self._critic.backward(self._judging, by_value[:, None])
