"""Learning a sequence policy: the loss of its actions, whose gradients are summed over the group in one bucket."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from gmi_drl.algo.adam import Adam
from gmi_drl.algo.flat_parameters import FlatParameters
from gmi_drl.algo.sequence_agent import SequenceAgent
from gmi_drl.config.learners.sequence import SequenceConfig
from gmi_drl.workload.spaces import Action


@dataclass(frozen=True)
class Contexts:
    """B stretches of episodes of T steps.

    Args:
        to_go: Returns-to-go, not scaled, `[B, T]`.
        obs: Not scaled, `[B, T, O]`.
        action: As it was given to the task, `[B, T, A]`.
        is_step: False past the end of an episode, bool `[B, T]`.
    """

    to_go: Tensor
    obs: Tensor
    action: Tensor
    is_step: Tensor


class Sequence:
    """Updates an agent from contexts; the learners of a group stay equal, bit by bit.

    If gradients are not finite, an update changes nothing.

    Args:
        agent: Trained in place.
        config: Hyper-parameters.
        share: Weight of this GMI's mean in the mean over the group.
        reduce: Sums a float32 vector in place over the group; does nothing in a group of one.
        make_bucket: Allocates memory on the device that `reduce` reads with the fewest copies.

    Attributes:
        updates: How many there were.
    """

    def __init__(
        self,
        agent: SequenceAgent,
        config: SequenceConfig,
        *,
        share: float = 1.0,
        reduce: Callable[[Tensor], None] = lambda bucket: None,
        make_bucket: Callable[[int], Tensor] | None = None,
    ) -> None:
        self.agent, self.config, self.share, self.reduce = agent, config, share, reduce
        device = agent.policy.log_std.device
        parameters = agent.policy.parameters_in_order()
        self.flat = FlatParameters(parameters, tail=1, make_bucket=make_bucket or partial(torch.zeros, device=device))
        self.learning_rate = torch.tensor(config.learning_rate, device=device)
        self.found_inf = torch.zeros((), device=device)
        self.adam = Adam(self.flat.vector, self.flat.gradient, self.learning_rate, self.found_inf)
        self._totals = torch.zeros(2, device=device)
        self.updates = self._done = 0

    def begin(self) -> None:
        """Begin an iteration: metrics are means over its updates."""
        self._totals.zero_()
        self._done = 0

    def update(self, contexts: Contexts) -> None:
        """Learn from a batch."""
        self.flat.bucket.zero_()
        loss, spread = self._losses(contexts)
        ((loss + spread) * self.share).backward()  # type: ignore[no-untyped-call]
        with torch.no_grad():
            self.flat.tail.copy_(loss.detach() * self.share)
            self.reduce(self.flat.bucket)
            spreads = self.agent.policy.log_std.numel()
            gradient = self.flat.gradient[: self.flat.size - spreads]
            norm = torch.linalg.vector_norm(gradient)
            torch.logical_not(self.flat.gradient.sum().isfinite(), out=self.found_inf)
            gradient.mul_((self.config.max_grad_norm / (norm + 1e-6)).clamp(max=1.0))
            self.adam.step()
            self._totals[:1] += self.flat.tail
            self._totals[1] += self.found_inf
        self.updates += 1
        self._done += 1

    def metrics(self) -> dict[str, float]:
        """Means over the updates of this iteration. Waits for the device."""
        loss, skipped = self._totals.tolist()
        values = {"learning_rate": float(self.learning_rate), "updates": float(self.updates)}
        return values | {"action_loss": loss / max(self._done, 1), "skipped_updates": skipped}

    def state_dict(self) -> dict[str, Tensor]:
        """Everything that the next update depends on, but the batch."""
        return {
            "parameters": self.flat.vector,
            "adam.mean": self.adam.mean,
            "adam.square": self.adam.square,
            "adam.step": self.adam.steps,
            "learning_rate": self.learning_rate,
            "counts": torch.tensor([self.updates]),
        }

    def load_state_dict(self, saved: dict[str, Tensor]) -> None:
        """Continue from `state_dict`."""
        for name, tensor in self.state_dict().items():
            tensor.copy_(saved[name])
        self.updates = int(saved["counts"])

    def _losses(self, contexts: Contexts) -> tuple[Tensor, Tensor]:
        """The mean loss of the actions; and that of the numbers' standard deviations, which nothing else depends on."""
        policy, scaling = self.agent.policy, self.agent.normaliser
        params = policy(contexts.to_go / scaling.unit, scaling(contexts.obs), contexts.action)
        weight = contexts.is_step / contexts.is_step.sum()
        each, distance = action_losses(params, contexts.action, policy.distribution.action)
        scaled = distance.detach() * (-2 * policy.log_std).exp()
        spread = (0.5 * scaled + policy.log_std).sum(-1)
        return (each * weight).sum(), (spread * weight).sum()


def action_losses(params: Tensor, action: Tensor, kind: Action) -> tuple[Tensor, Tensor]:
    """The losses of predicted actions.

    Args:
        params: `[..., P]`: means of the numbers, then logits.
        action: What was done, `[..., A]`; numbers count within [-1, 1].
        kind: Of the actions.

    Returns:
        Mean squared error of the numbers plus the cross-entropies of the choices, `[...]`; squared errors `[..., C]`.
    """
    numbers = kind.numbers
    distance = (params[..., :numbers] - action[..., :numbers].clamp(-1, 1)).square()
    each = distance.mean(-1) if numbers else params.new_zeros(params.shape[:-1])
    begin = numbers
    for place, size in enumerate(kind.categories):
        logits, chosen = params[..., begin : begin + size], action[..., numbers + place].long()
        each = each + cross_entropy(logits.movedim(-1, 1), chosen, reduction="none")
        begin += size
    return each, distance
