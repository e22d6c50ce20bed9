"""A3C over a flat bucket: one pass over experience of somewhat older policies, corrected by V-trace."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Self

import torch
from torch import Tensor

from gmi_drl.algo.experience_batch import ExperienceBatch
from gmi_drl.algo.flat_learner import LEARNING_RATE_FACTOR, FlatLearner
from gmi_drl.algo.networks import ActorCritic
from gmi_drl.algo.networks.memory import Past
from gmi_drl.algo.normaliser import Normaliser
from gmi_drl.algo.sequences import cut, sizes_of, transitions_of
from gmi_drl.algo.vtrace import Steps, n_step_returns, vtrace
from gmi_drl.config.learners import A3CConfig
from gmi_drl.cuda_graph import Captured
from gmi_drl.errors import UsageError


@dataclass
class Samples:
    """Transitions in the order of the slices, each `[B, ...]`; observations are scaled.

    For a policy with memories each slice, and what remains after the last, are sequences, step by step.
    """

    obs: Tensor
    action: Tensor
    log_prob: Tensor
    """Under the policy that acted."""

    valid: Tensor
    target: Tensor
    """Target of the value."""

    advantage: Tensor

    done: Tensor | None = None
    """1 where an episode ended; with memories alone."""

    state: Tensor | None = None
    """Of the memories, at the start of each of the Q sequences, `[Q, S]`."""

    @property
    def past(self) -> Past | None:
        """What a policy with memories needs besides the observations."""
        return None if self.state is None else Past(self.state, self.done)

    @property
    def units(self) -> int:
        """What slices divide: transitions; with memories, sequences."""
        return len(self.obs if self.state is None else self.state)

    def split(self, parts: int, *, with_rest: bool = False) -> list[Self]:
        """Views of equally many units; `with_rest` also of those that remain after the division, if any do."""
        sizes = sizes_of(self.units, parts)
        cuts = cut(vars(self), sizes if with_rest else sizes[:parts], self.units)
        return [type(self)(**fields) for fields in cuts]  # type: ignore[arg-type]


class Experience:
    """A copy of a batch for one update; the memory is reused for batches of the same size.

    Observations, of which only values and densities are computed, are in the order of the samples. Tensors that are
    needed along time are in the order of the batch, `[R, T, N]`.

    Args:
        like: A batch of this size.
        slices: Of an update.
    """

    def __init__(self, like: ExperienceBatch, slices: int) -> None:
        shape, device = like.reward.shape, like.reward.device
        sequences = 0 if like.state is None else like.state.shape[1] - 1  # of each environment in a rollout
        units = shape[0] * sequences * shape[2] or shape.numel()
        order = torch.randperm(units, generator=torch.Generator(device).manual_seed(0), device=device)
        self._sequences = order
        if sequences:
            order = transitions_of(order, shape[1] // sequences, shape[2], slices)
        self.order, self.place = order, order.argsort()
        self.samples = Samples(
            **{name: torch.zeros_like(getattr(like, name)).flatten(0, 2) for name in ("obs", "action", "log_prob")},
            **{name: torch.zeros(shape.numel(), device=device) for name in ("valid", "target", "advantage")},
        )
        self.reward, self.done, self.valid, self.bootstrap, self.log_prob = torch.zeros(5, *shape, device=device)
        self.last_obs = torch.zeros_like(like.last_obs)
        self._states, self.last_past = None, None
        if like.state is not None:
            self._states = torch.zeros_like(like.state[:, :-1])
            self.last_past = Past(torch.zeros_like(like.state[:, -1]).flatten(0, 1))
            self.samples.state, self.samples.done = (
                self._states.flatten(0, 2).clone(),
                torch.zeros_like(self.samples.valid),
            )

    def fill(self, batch: ExperienceBatch, normaliser: Normaliser) -> None:
        """Copy a batch of this size, and scale its observations."""
        for name in ("obs", "action", "log_prob", "valid"):
            self.shuffle(getattr(batch, name), getattr(self.samples, name))
        for name in ("reward", "done", "valid", "bootstrap", "log_prob", "last_obs"):
            getattr(self, name).copy_(getattr(batch, name))
        self._fill_states(batch)
        normaliser.scale_(self.samples.obs)
        normaliser.scale_(self.last_obs)

    def _fill_states(self, batch: ExperienceBatch) -> None:
        """Copy the states of memories, and the ends that they forget at."""
        samples, states, last = self.samples, self._states, self.last_past
        if batch.state is None or samples.state is None or samples.done is None or states is None or last is None:
            return
        self.shuffle(batch.done, samples.done)
        states.copy_(batch.state[:, :-1])
        torch.index_select(states.flatten(0, 2), 0, self._sequences, out=samples.state)
        last.state.view_as(batch.state[:, -1]).copy_(batch.state[:, -1])

    def shuffle(self, ordered: Tensor, into: Tensor) -> None:
        """Write `[R, T, N, ...]` `into` the order of the samples."""
        torch.index_select(ordered.flatten(0, 2), 0, self.order, out=into)

    def in_time(self, samples: Tensor) -> Tensor:
        """A copy of `samples [B]` in the order of the batch, `[R, T, N]`."""
        return samples.index_select(0, self.place).view(self.reward.shape)


class A3C(FlatLearner[A3CConfig]):
    """Learns from the experience of agents on other GMIs (arXiv 1602.01783), with V-trace (arXiv 1802.01561).

    Each step uses one slice of the transitions, in an order that is the same for all updates; the remainder of the
    division is not used. For the other arguments see `FlatLearner`.

    Args:
        normaliser: Scales the raw observations of batches, by its statistics at the time of an update.
    """

    METRICS = ("policy_loss", "value_loss", "kl", "rho", "skipped_updates")
    """`kl` is from the policies that acted to the one that learns, estimated by half the mean square of the difference
    of log probabilities; `rho` is V-trace's, clipped, 1 if both policies are the same."""

    def __init__(
        self,
        policy: ActorCritic,
        normaliser: Normaliser,
        config: A3CConfig,
        *,
        sample_share: float = 1.0,
        reduce: Callable[[Tensor], None] = lambda bucket: None,
        make_bucket: Callable[[int], Tensor] | None = None,
        cuda_graphs: bool = True,
    ) -> None:
        super().__init__(
            policy,
            config,
            sample_share=sample_share,
            reduce=reduce,
            make_bucket=make_bucket,
            cuda_graphs=cuda_graphs,
        )
        self.normaliser = normaliser

    @property
    def learning_rate_factor(self) -> float:
        """See `FlatLearner`. It is per update: the effect of a single step is seen only when agents act."""
        return LEARNING_RATE_FACTOR ** (1 / self.config.minibatches)  # type: ignore[no-any-return]

    def update(self, batch: ExperienceBatch) -> None:
        """Learn from a batch.

        Raises:
            UsageError: if it has fewer transitions than an update has slices.
        """
        experience, estimate = self._memory_for(batch)
        experience.fill(batch, self.normaliser)  # from here on the batch is not read
        estimate()
        self._take_steps()

    def release(self) -> None:
        """See `FlatLearner`."""
        self._memory: tuple[Experience, Captured] | None = None
        super().release()

    def _memory_for(self, batch: ExperienceBatch) -> tuple[Experience, Captured]:
        """Memory for a batch of this size, the function that estimates its targets, and a step for each slice of it.

        They are kept while batches have the same size, so that their graphs are kept.
        """
        if self._memory is None or self._memory[0].reward.shape != batch.reward.shape:
            slices = self.config.minibatches
            self._memory, self._gradient_steps = None, []  # free them before allocating others
            experience = Experience(batch, slices)
            if (units := experience.samples.units) < slices:
                raise UsageError(
                    f"{units} {self.config.unit} are too few for {slices} slices: more environments, longer "
                    f"horizon, or --set learner.minibatches={units}"
                )
            self._memory = experience, self._captured(partial(self._estimate, experience))
            self._step_by(partial(self._compute_gradient, part) for part in experience.samples.split(slices))
        return self._memory

    @torch.no_grad()
    def _estimate(self, experience: Experience) -> None:
        """Targets and advantages of all samples, by policy and values at the start of the update.

        Values after time-outs are from the agent that acted: only there were the observations known.
        """
        config, samples = self.config, experience.samples
        value, log_prob = self._judge(samples)
        value = experience.in_time(value)
        last_value = self._last_value(experience)
        steps = Steps(
            reward=config.reward_scale * experience.reward + config.gamma * experience.bootstrap,
            discount=config.gamma * (1 - experience.done),
            valid=experience.valid,
            value=value,
            next_value=torch.cat((value[:, 1:], last_value[:, None]), 1),
        )
        if log_prob is not None:
            estimates = vtrace(
                steps, (experience.in_time(log_prob) - experience.log_prob).exp(), config.rho_clip, config.c_clip
            )
        else:
            estimates = n_step_returns(steps)
        experience.shuffle(estimates.target, samples.target)
        experience.shuffle(estimates.advantage, samples.advantage)

    def _judge(self, samples: Samples) -> tuple[Tensor, Tensor | None]:
        """Values `[B]` of all samples by the policy as it is now, and for V-trace densities."""
        if samples.state is None and not self.config.vtrace:
            return self.policy.value(samples.obs), None
        parts = [samples] if samples.state is None else samples.split(self.config.minibatches, with_rest=True)
        judged = [self.policy.params_and_value(part.obs, part.past) for part in parts]
        params, value = (torch.cat(numbers) if len(parts) > 1 else numbers[0] for numbers in zip(*judged, strict=True))
        return value, self.policy.log_prob(samples.action, params) if self.config.vtrace else None

    def _last_value(self, experience: Experience) -> Tensor:
        """Values `[R, N]` of the observations after the last steps."""
        obs = experience.last_obs
        if experience.last_past is None:
            return self.policy.value(obs)
        return self.policy.value(obs.flatten(0, 1), experience.last_past).view(obs.shape[:2])

    def _compute_gradient(self, part: Samples) -> None:
        """Fill the bucket: gradients of this GMI's share of the loss, and the metrics.

        The loss is `-mean(log_prob weight advantage) + value_loss_coef mean(error^2) - entropy_coef entropy`.
        """
        if self.policy.is_plain:
            self._differentiate(part)
        else:
            self._by_autograd(part)

    def _by_autograd(self, part: Samples) -> None:
        config, policy = self.config, self.policy
        self.flat.bucket.zero_()
        params, value = policy.params_and_value(part.obs, part.past)
        log_prob = policy.log_prob(part.action, params)
        with torch.no_grad():
            change = log_prob - part.log_prob
            ratio = change.exp()
            rho = ratio.clamp(max=config.rho_clip) * part.valid
            weight = rho if config.vtrace else part.valid
            if config.clip is not None:
                weight = weight * ((ratio - 1) * part.advantage.sign() <= config.clip)
            kl = 0.5 * (change.square() * part.valid).mean()
        policy_loss = -(log_prob * weight * part.advantage).mean()
        value_loss = ((value - part.target).square() * part.valid).mean()
        entropy = policy.entropy(params)
        if not policy.distribution.entropy_is_constant:
            entropy = (entropy * part.valid).mean()
        loss = policy_loss + config.value_loss_coef * value_loss - config.entropy_coef * entropy
        self._fill_bucket(loss, policy_loss, value_loss, kl, rho.mean(), *self._entropy_of(entropy))

    @torch.no_grad()
    def _differentiate(self, part: Samples) -> None:
        """The same without autograd, for two MLPs and a Gaussian or categories."""
        config, share = self.config, self.sample_share / len(part.obs)
        log_prob, value = self._plain.forward(part.obs, part.action)
        change = log_prob - part.log_prob
        ratio = change.exp()
        rho = ratio.clamp(max=config.rho_clip).mul_(part.valid)
        weight = rho if config.vtrace else part.valid
        if config.clip is not None:
            weight = weight * (ratio.sub_(1).mul_(part.advantage.sign()) <= config.clip)
        error = (value - part.target).mul_(part.valid)
        measured = (
            log_prob.mul_(weight).mul_(part.advantage).neg_(),
            error.square(),
            change.square_().mul_(part.valid).mul_(0.5),
            rho,
            *(entropy * part.valid for entropy in self._plain.entropy),
        )
        torch.mul(torch.stack(measured).sum(1), share, out=self.flat.tail)
        by_log_prob = (part.advantage * -share).mul_(weight)
        by_value = error.mul_(2 * config.value_loss_coef * share)
        self._plain.backward(by_log_prob, by_value, -config.entropy_coef * self.sample_share, part.valid)
