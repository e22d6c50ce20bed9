"""The base of our learners: gradients in one flat bucket, summed over the group, then a step of Adam."""

from collections.abc import Callable, Iterable
from functools import partial
from typing import ClassVar, Generic, TypeVar

import torch
from torch import Tensor

from gmi_drl.algo.adam import Adam
from gmi_drl.algo.flat_parameters import FlatParameters
from gmi_drl.algo.networks import ActorCritic
from gmi_drl.algo.plain_gradient import PlainGradient
from gmi_drl.config.learners import OurConfig
from gmi_drl.cuda_graph import Captured

LEARNING_RATE_RANGE = (1e-5, 1e-2)  # rsl_rl's bounds and factor for the adaptive schedule
LEARNING_RATE_FACTOR = 1.5


Config = TypeVar("Config", bound=OurConfig)


class FlatLearner(Generic[Config]):
    """Updates a policy; the learners of a group stay equal. A subclass defines the loss.

    Nothing in an update waits for the device, except a `reduce` that goes through the host: learning rate, KL and
    losses stay tensors. If a GMI has gradients that are not finite, their sum is not, and Adam skips the step.

    Args:
        policy: The networks, on the device of the update.
        config: Hyper-parameters.
        sample_share: Samples that this GMI learns from divided by those of its whole group.
        reduce: Sums a float32 vector in place over the group; does nothing in a group of one.
        make_bucket: Allocates memory on the device that `reduce` reads with the fewest copies.
        cuda_graphs: Whether to use CUDA graphs for the work before and after each `reduce`, on a GPU.

    Attributes:
        totals: Sums of `METRICS` over the steps of the last update.
    """

    METRICS: ClassVar[tuple[str, ...]]
    """Metrics of a step in the order of the bucket's tail, one of them "kl"; then "skipped_updates".

    Before the latter there is "entropy" where it depends on the observation (`measured`).
    """

    def __init__(
        self,
        policy: ActorCritic,
        config: Config,
        *,
        sample_share: float = 1.0,
        reduce: Callable[[Tensor], None] = lambda bucket: None,
        make_bucket: Callable[[int], Tensor] | None = None,
        cuda_graphs: bool = True,
    ) -> None:
        self.policy, self.config, self.sample_share, self.reduce = policy, config, sample_share, reduce
        self._cuda_graphs = cuda_graphs
        device = policy.log_std.device
        make_bucket = make_bucket or partial(torch.zeros, device=device)
        more = () if policy.distribution.entropy_is_constant else ("entropy",)
        self.measured = (*self.METRICS[:-1], *more, self.METRICS[-1])
        self.flat = FlatParameters(policy.parameters_in_order(), tail=len(self.measured) - 1, make_bucket=make_bucket)
        size = policy.actor_size
        self._clipped = [part for part in (self.flat.gradient[:size], self.flat.gradient[size:]) if len(part)]
        self.learning_rate = torch.tensor(config.learning_rate, device=device)
        self.found_inf = torch.zeros((), device=device)
        self.adam = Adam(self.flat.vector, self.flat.gradient, self.learning_rate, self.found_inf)
        self.totals = torch.zeros(len(self.measured), device=device)
        self.release()

    @property
    def learning_rate_factor(self) -> float:
        """Factor by which the adaptive learning rate changes in a step."""
        return LEARNING_RATE_FACTOR

    def release(self) -> None:
        """Free the memory for the samples of an update, and all CUDA graphs."""
        if self.policy.is_plain:
            self._plain = PlainGradient(self.policy)  # the old one keeps the last mini-batch's activations
        self._gradient_steps: list[Captured] = []
        self._apply_step = self._captured(self._apply)

    @torch.no_grad()
    def metrics(self) -> dict[str, float]:
        """Means over the steps of the last update; learning rate, noise and constant entropy after it.

        Waits for the device.
        """
        policy, count = self.policy, self.config.epochs * self.config.minibatches
        now = {"learning_rate": self.learning_rate}
        if policy.distribution.entropy_is_constant:
            now["entropy"] = policy.entropy()
        if policy.log_std.numel():
            now["action_std"] = policy.log_std.exp().mean()
        values = torch.cat((self.totals, torch.stack([*now.values()]))).tolist()
        *sums, skipped = values[: len(self.measured)]
        rows = dict(zip(self.measured, [total / count for total in sums] + [skipped], strict=True))
        return rows | dict(zip(now, values[len(self.measured) :], strict=True))

    def state_dict(self) -> dict[str, Tensor]:
        """Everything that the next update depends on."""
        return {
            "parameters": self.flat.vector,
            "adam.mean": self.adam.mean,
            "adam.square": self.adam.square,
            "adam.step": self.adam.steps,
            "learning_rate": self.learning_rate,
        }

    def load_state_dict(self, saved: dict[str, Tensor]) -> None:
        """Continue from `state_dict`."""
        for name, tensor in self.state_dict().items():
            tensor.copy_(saved[name])

    def _step_by(self, compute_gradients: Iterable[Callable[[], None]]) -> None:
        """Set the steps of an update: one for each of these functions, which write a gradient into the bucket."""
        self._gradient_steps = [self._captured(compute) for compute in compute_gradients]

    def _captured(self, function: Callable[[], None]) -> Captured:
        return Captured(function, self.totals.device, is_on=self._cuda_graphs)

    def _take_steps(self) -> None:
        """All steps of an update."""
        self.totals.zero_()
        for _ in range(self.config.epochs):
            for compute_gradient in self._gradient_steps:
                compute_gradient()
                self.reduce(self.flat.bucket)
                self._apply_step()

    def _fill_bucket(self, loss: Tensor, *measured: Tensor) -> None:
        """Add this GMI's share of a loss's gradient to the bucket, and write its share of the metrics into the tail.

        The bucket must be zero before.
        """
        (loss * self.sample_share).backward()  # type: ignore[no-untyped-call]
        with torch.no_grad():
            self.flat.tail.copy_(torch.stack([number.detach() for number in measured]) * self.sample_share)

    def _entropy_of(self, entropy: Tensor) -> tuple[Tensor, ...]:
        """The entropy as a metric, if it is one of a step."""
        return () if self.policy.distribution.entropy_is_constant else (entropy,)

    @torch.no_grad()
    def _apply(self) -> None:
        """One step of Adam with the sum in the bucket."""
        flat = self.flat
        self._adapt_learning_rate(flat.tail[self.measured.index("kl")])
        for part in self._clipped:
            self._clip(part)
        self.found_inf.copy_(1 - flat.gradient.sum().isfinite().float())
        self.adam.step()
        self.totals[:-1] += flat.tail
        self.totals[-1] += self.found_inf

    def _adapt_learning_rate(self, kl: Tensor) -> None:
        """Change the learning rate so that the KL of a step stays near `desired_kl`."""
        if self.config.schedule != "adaptive":
            return
        slower = self.learning_rate / self.learning_rate_factor
        faster = self.learning_rate * self.learning_rate_factor
        is_small = (kl < self.config.desired_kl / 2) & (kl > 0)
        rate = torch.where(is_small, faster, self.learning_rate)
        rate = torch.where(kl > self.config.desired_kl * 2, slower, rate)
        self.learning_rate.copy_(rate.clamp(*LEARNING_RATE_RANGE))

    def _clip(self, gradient: Tensor) -> None:
        """Scale a part of the gradient so that its norm is at most `max_grad_norm`."""
        norm = torch.linalg.vector_norm(gradient)
        gradient.mul_((self.config.max_grad_norm / (norm + 1e-6)).clamp(max=1.0))
