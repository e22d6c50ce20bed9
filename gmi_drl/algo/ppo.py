"""PPO over a flat bucket, whose gradients are summed over the group."""

from functools import cached_property, partial

import torch
from torch import Tensor

from gmi_drl.algo.flat_learner import FlatLearner
from gmi_drl.algo.rollout import MiniBatch, Rollout, split
from gmi_drl.config.learners import PPOConfig
from gmi_drl.errors import UsageError


class PPO(FlatLearner[PPOConfig]):
    """Proximal policy optimisation (arXiv 1707.06347), with a step for each mini-batch.

    The order of operations is rsl_rl's. For arguments see `FlatLearner`.
    """

    METRICS = ("surrogate_loss", "value_loss", "kl", "skipped_updates")

    @cached_property
    def old_log_std(self) -> Tensor:
        """Of the policy around which an update clips, `[A]`. One tensor for all rollouts, since graphs read it."""
        return torch.zeros_like(self.policy.log_std)

    def update(self, rollout: Rollout, permutation: Tensor) -> None:
        """Learn from a rollout whose advantages are final; `permutation` orders its units."""
        self.old_log_std.copy_(rollout.log_std)
        rollout.shuffle(
            permutation, self._memory_for(rollout), self.config.minibatches
        )  # from here on the rollout is not read
        self._take_steps()

    def policy_gradient(self, batch: MiniBatch) -> Tensor:
        """The policy's part of the gradient over a mini-batch, a view that the next call overwrites.

        With a shared trunk it is the whole gradient.
        """
        self._compute_gradient(batch)
        return self.flat.gradient[: self.policy.actor_size]

    def release(self) -> None:
        """See `FlatLearner`."""
        self._shuffled: MiniBatch | None = None
        super().release()

    def _memory_for(self, rollout: Rollout) -> MiniBatch:
        """Memory for the transitions of a rollout of this size. Also sets a step for each mini-batch in it.

        It is kept while rollouts have the same size, so that their graphs are kept.

        Raises:
            UsageError: if a rollout has fewer units than an epoch has mini-batches.
        """
        if rollout.units < self.config.minibatches:
            raise UsageError(
                f"{rollout.units} {self.config.unit} are too few for {self.config.minibatches} mini-batches: more "
                f"environments, longer horizon, or --set learner.minibatches={rollout.units}"
            )
        if self._shuffled is None or len(self._shuffled.obs) != rollout.transitions:
            self._shuffled, self._gradient_steps = None, []  # free them before allocating others
            self._shuffled = rollout.empty_batch()
            self._step_by(
                partial(self._compute_gradient, part) for part in split(self._shuffled, self.config.minibatches)
            )
        return self._shuffled

    def _compute_gradient(self, batch: MiniBatch) -> None:
        """Fill the bucket: gradients of this GMI's share of the loss, and the metrics."""
        if self.policy.is_plain:
            self._differentiate(batch)
        else:
            self._by_autograd(batch)

    def _by_autograd(self, batch: MiniBatch) -> None:
        self.flat.bucket.zero_()
        policy, distribution = self.policy, self.policy.distribution
        params, value = policy.params_and_value(batch.obs, batch.past)
        surrogate, value_loss = self._surrogate(batch, params), self._value_loss(batch, value)
        with torch.no_grad():
            kl = distribution.kl(batch.params, self.old_log_std, params, policy.log_std)
            kl = (kl * batch.valid).mean()
        entropy = policy.entropy(params)
        if not distribution.entropy_is_constant:
            entropy = (entropy * batch.valid).mean()
        loss = surrogate + self.config.value_loss_coef * value_loss - self.config.entropy_coef * entropy
        self._fill_bucket(loss, surrogate, value_loss, kl, *self._entropy_of(entropy))

    def _surrogate(self, batch: MiniBatch, params: Tensor) -> Tensor:
        ratio = (self.policy.log_prob(batch.action, params) - batch.log_prob).exp()
        clipped = ratio.clamp(1 - self.config.clip, 1 + self.config.clip)
        return (torch.max(-batch.advantage * ratio, -batch.advantage * clipped) * batch.valid).mean()

    def _value_loss(self, batch: MiniBatch, value: Tensor) -> Tensor:
        loss = (value - batch.returns).square()
        if self.config.clip_value_loss:
            near = batch.value + (value - batch.value).clamp(-self.config.clip, self.config.clip)
            loss = torch.max(loss, (near - batch.returns).square())
        return (loss * batch.valid).mean()

    @torch.no_grad()
    def _differentiate(self, batch: MiniBatch) -> None:
        """The same without autograd, for two MLPs and a Gaussian or categories.

        Of a maximum the larger of both changes it; what `clamp` holds does not change.
        """
        config, share = self.config, self.sample_share / len(batch.obs)
        log_prob, value = self._plain.forward(batch.obs, batch.action)
        kl = self.policy.distribution.kl(batch.params, self.old_log_std, self._plain.params, self.policy.log_std)
        ratio = (log_prob - batch.log_prob).exp()
        free, held = (-batch.advantage * one for one in (ratio, ratio.clamp(1 - config.clip, 1 + config.clip)))
        error = value - batch.returns
        loss, by_value = error.square(), error * batch.valid
        if config.clip_value_loss:
            change = value - batch.value
            near_loss = (batch.value + change.clamp(-config.clip, config.clip) - batch.returns).square()
            by_value.mul_((loss >= near_loss) | (change.abs() <= config.clip))
            loss = torch.max(loss, near_loss)
        measured = torch.stack((torch.max(free, held), loss, kl, *self._plain.entropy)).mul_(batch.valid)
        torch.mul(measured.sum(1), share, out=self.flat.tail)
        by_log_prob = (free * (free >= held)).mul_(batch.valid)
        by_value = by_value.mul_(2 * config.value_loss_coef * share)
        self._plain.backward(by_log_prob.mul_(share), by_value, -config.entropy_coef * self.sample_share, batch.valid)
