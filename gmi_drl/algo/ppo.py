"""PPO over a flat bucket: the gradients of all GMIs are summed by whatever `reduce` is handed in."""

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from gmi_drl.algo.adam import Adam
from gmi_drl.algo.flat import FlatParameters
from gmi_drl.algo.networks import ActorCritic, gaussian_kl
from gmi_drl.algo.rollout import MiniBatch, Rollout, split
from gmi_drl.device.captured import Captured
from gmi_drl.learners import PPOConfig

LEARNING_RATE_RANGE = (1e-5, 1e-2)  # rsl_rl's bounds and factor for the adaptive schedule
LEARNING_RATE_FACTOR = 1.5


class PPO:
    """Proximal policy optimisation (arXiv 1707.06347) of one replica; the order of operations is rsl_rl's.

    Nothing in `update` waits for the device, but for a `reduce` that goes through the host: learning rate, KL and
    losses stay tensors; a mini-batch whose gradients are not finite (on any GMI: the sum carries it) is skipped by Adam
    on the device and counted.

    Args:
        policy: The networks, on the device that the update shall run on.
        config: Hyper-parameters.
        sample_share: Samples that this GMI learns from divided by those of its whole group.
        reduce: Sums a float32 vector in place over the group; the identity when alone.
        make_bucket: Gives memory on the device that `reduce` reads with the fewest copies.
        cuda_graphs: On a GPU, replay what happens before and after each `reduce` as CUDA graphs.
    """

    METRICS = ("surrogate_loss", "value_loss", "kl", "skipped_updates")

    def __init__(
        self,
        policy: ActorCritic,
        config: PPOConfig,
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
        self.flat = FlatParameters(policy.parameters_in_order(), tail=len(self.METRICS) - 1, make_bucket=make_bucket)
        self.learning_rate = torch.tensor(config.learning_rate, device=device)
        self.found_inf = torch.zeros((), device=device)
        self.adam = Adam(self.flat.vector, self.flat.gradient, self.learning_rate, self.found_inf)
        self.old_log_std = torch.zeros_like(policy.log_std)
        self.totals = torch.zeros(len(self.METRICS), device=device)
        self.release()

    def update(self, rollout: Rollout, permutation: Tensor) -> None:
        """Learn from a rollout whose advantages are final; `permutation [T * N]` orders its transitions.

        Afterwards `totals` holds the sums over mini-batches of `METRICS`.
        """
        self.old_log_std.copy_(rollout.log_std)
        self.totals.zero_()
        rollout.shuffle(permutation, into=self._room_for(rollout))  # from here on the rollout is not read
        for _ in range(self.config.epochs):
            for compute_gradient in self._gradient_steps:
                compute_gradient()
                self.reduce(self.flat.bucket)
                self._apply_step()

    def policy_gradient(self, batch: MiniBatch) -> Tensor:
        """The policy's part of the gradient over a mini-batch, a view that the next call overwrites. Learns nothing."""
        self._compute_gradient(batch)
        return self.flat.gradient[: self.policy.actor_size]

    def release(self) -> None:
        """Free the memory for the transitions of an update, and let go of all that was captured."""
        self._shuffled: MiniBatch | None = None
        self._gradient_steps: list[Captured] = []
        self._apply_step = Captured(self._apply, self.totals.device, is_on=self._cuda_graphs)

    @torch.no_grad()
    def metrics(self) -> dict[str, float]:
        """Means over the mini-batches of the last update; learning rate, entropy and noise after it. Waits, once."""
        count = self.config.epochs * self.config.minibatches
        now = torch.stack((self.learning_rate, self.policy.entropy(), self.policy.log_std.exp().mean()))
        *sums, skipped, learning_rate, entropy, action_std = torch.cat((self.totals, now)).tolist()
        rows = dict(zip(self.METRICS, [total / count for total in sums] + [skipped], strict=True))
        return {**rows, "learning_rate": learning_rate, "entropy": entropy, "action_std": action_std}

    def state_dict(self) -> dict[str, Tensor]:
        """Everything that the next update depends on, as tensors."""
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

    def _room_for(self, rollout: Rollout) -> MiniBatch:
        """Memory of our own for the transitions of an update, and a step for each mini-batch in it.

        They stay as long as rollouts have the same size, whichever they are: two by turns need no new graphs.
        """
        if self._shuffled is None or len(self._shuffled.obs) != rollout.transitions:
            self._shuffled, self._gradient_steps = None, []  # before there is room for others
            self._shuffled = rollout.empty_batch()
            steps = [partial(self._compute_gradient, part) for part in split(self._shuffled, self.config.minibatches)]
            self._gradient_steps = [Captured(step, self.totals.device, is_on=self._cuda_graphs) for step in steps]
        return self._shuffled

    def _compute_gradient(self, batch: MiniBatch) -> None:
        """Fill the bucket: gradients of this GMI's share of the loss, and what else is to be summed."""
        flat = self.flat
        flat.bucket.zero_()
        mean = self.policy.actor(batch.obs)
        surrogate, value_loss = self._surrogate(batch, mean), self._value_loss(batch)
        loss = surrogate + self.config.value_loss_coef * value_loss - self.config.entropy_coef * self.policy.entropy()
        (loss * self.sample_share).backward()  # type: ignore[no-untyped-call]
        with torch.no_grad():
            kl = (gaussian_kl(batch.mean, self.old_log_std, mean, self.policy.log_std) * batch.valid).mean()
            flat.tail.copy_(torch.stack((surrogate.detach(), value_loss.detach(), kl)) * self.sample_share)

    @torch.no_grad()
    def _apply(self) -> None:
        """One step of Adam with the sum in the bucket."""
        flat = self.flat
        self._adapt_learning_rate(flat.tail[2])
        self._clip(flat.gradient[: self.policy.actor_size])
        self._clip(flat.gradient[self.policy.actor_size :])
        self.found_inf.copy_(1 - flat.gradient.sum().isfinite().float())
        self.adam.step()
        self.totals[:-1] += flat.tail
        self.totals[-1] += self.found_inf

    def _surrogate(self, batch: MiniBatch, mean: Tensor) -> Tensor:
        ratio = (self.policy.log_prob(batch.action, mean) - batch.log_prob).exp()
        clipped = ratio.clamp(1 - self.config.clip, 1 + self.config.clip)
        return (torch.max(-batch.advantage * ratio, -batch.advantage * clipped) * batch.valid).mean()

    def _value_loss(self, batch: MiniBatch) -> Tensor:
        value = self.policy.value(batch.obs)
        loss = (value - batch.returns).square()
        if self.config.clip_value_loss:
            near = batch.value + (value - batch.value).clamp(-self.config.clip, self.config.clip)
            loss = torch.max(loss, (near - batch.returns).square())
        return (loss * batch.valid).mean()

    def _adapt_learning_rate(self, kl: Tensor) -> None:
        """Keep the KL of a mini-batch near `desired_kl`."""
        if self.config.schedule == "fixed":
            return
        slower = self.learning_rate / LEARNING_RATE_FACTOR
        faster = self.learning_rate * LEARNING_RATE_FACTOR
        is_small = (kl < self.config.desired_kl / 2) & (kl > 0)
        rate = torch.where(is_small, faster, self.learning_rate)
        rate = torch.where(kl > self.config.desired_kl * 2, slower, rate)
        self.learning_rate.copy_(rate.clamp(*LEARNING_RATE_RANGE))

    def _clip(self, gradient: Tensor) -> None:
        """Scale a part of the gradient so that its norm is at most `max_grad_norm`."""
        norm = torch.linalg.vector_norm(gradient)
        gradient.mul_((self.config.max_grad_norm / (norm + 1e-6)).clamp(max=1.0))
