"""A3C over a flat bucket: one pass over experience of policies that are some versions old, corrected by V-trace."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from functools import partial
from typing import Self

import torch
from torch import Tensor

from gmi_drl.algo.experience import ExperienceBatch
from gmi_drl.algo.flat_learner import FlatLearner
from gmi_drl.algo.networks import ActorCritic
from gmi_drl.algo.normaliser import Normaliser
from gmi_drl.algo.vtrace import Judgement, Steps, n_step_returns, vtrace
from gmi_drl.errors import UsageError
from gmi_drl.learners import A3CConfig


@dataclass
class Trajectories:
    """What an update learns from, world after world: each `[W, T, ...]`, `last_obs [W, O]`; see `ExperienceBatch`."""

    obs: Tensor
    action: Tensor
    log_prob: Tensor
    reward: Tensor
    done: Tensor
    valid: Tensor
    bootstrap: Tensor
    last_obs: Tensor

    @classmethod
    def like(cls, batch: ExperienceBatch) -> Self:
        """Room for the worlds of all rollouts of a batch, W = R N."""
        return cls(**{name: torch.empty(to.shape, device=to.device).flatten(0, 1) for name, to in _by_worlds(batch)})

    def fill(self, batch: ExperienceBatch, normaliser: Normaliser) -> None:
        """Copy a batch, its observations scaled."""
        for name, tensor in _by_worlds(batch):
            getattr(self, name).view(tensor.shape).copy_(tensor)
        normaliser.scale_(self.obs)
        normaliser.scale_(self.last_obs)

    def split(self, parts: int) -> list[Self]:
        """Views of equally many worlds; the rest of a division goes unused."""
        size = self.last_obs.shape[0] // parts
        return [
            type(self)(**{name: tensor[i * size : (i + 1) * size] for name, tensor in vars(self).items()})
            for i in range(parts)
        ]


def _by_worlds(batch: ExperienceBatch) -> Iterator[tuple[str, Tensor]]:
    """Views `[R, N, T, ...]` of what `Trajectories` has of a batch, and `[R, N, O]`, by name."""
    for field in fields(Trajectories):
        tensor = getattr(batch, field.name)
        yield field.name, tensor if field.name == "last_obs" else tensor.transpose(1, 2)


class A3C(FlatLearner[A3CConfig]):
    """A learner of experience that agents elsewhere have gathered (arXiv 1602.01783), with V-trace (arXiv 1802.01561).

    Each step is by a slice of the worlds. For arguments beside these see `FlatLearner`.

    Args:
        normaliser: Scales the raw observations of batches, as it is at the time of an update.
    """

    METRICS = ("policy_loss", "value_loss", "kl", "rho", "skipped_updates")
    """KL from the policies that acted to the one that learns, estimated by half the mean square of the difference of
    log probabilities; rho as of V-trace, clipped, 1 where both are the same."""

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

    def update(self, batch: ExperienceBatch) -> None:
        """Learn from a batch.

        Raises:
            UsageError: if it has fewer worlds than an update has slices.
        """
        self._room_for(batch).fill(batch, self.normaliser)  # from here on the batch is not read
        self._take_steps()

    def release(self) -> None:
        """See `FlatLearner`."""
        self._trajectories: Trajectories | None = None
        super().release()

    def _room_for(self, batch: ExperienceBatch) -> Trajectories:
        """Memory of our own for the experience of an update, and a step for each slice of it.

        They stay as long as batches have as many worlds, whichever they are: those by turns need no new graphs.
        """
        if self._trajectories is None or len(self._trajectories.obs) != batch.worlds:
            slices = self.config.minibatches
            if batch.worlds < slices:
                raise UsageError(
                    f"{batch.worlds} environments make no {slices} slices: more environments or rollouts, or "
                    f"--set learner.minibatches={batch.worlds}"
                )
            self._trajectories, self._gradient_steps = None, []  # before there is room for others
            self._trajectories = Trajectories.like(batch)
            self._step_by(partial(self._compute_gradient, part) for part in self._trajectories.split(slices))
        return self._trajectories

    def _compute_gradient(self, part: Trajectories) -> None:
        """Fill the bucket: gradients of this GMI's share of the loss, and what else is to be summed."""
        config = self.config
        self.flat.bucket.zero_()
        value = self.policy.value(part.obs)
        log_prob = self.policy.log_prob(part.action, self.policy.actor(part.obs))
        with torch.no_grad():
            change = log_prob - part.log_prob
            ratio = change.exp()
            target, advantage = self._judge(part, value, ratio)
            kl = 0.5 * (change.square() * part.valid).mean()
            rho = (ratio.clamp(max=config.rho_clip) * part.valid).mean()
        policy_loss = -(log_prob * advantage).mean()
        value_loss = (value - target).square().mean()  # where a transition is not valid the target is the value
        loss = policy_loss + config.value_loss_coef * value_loss - config.entropy_coef * self.policy.entropy()
        self._fill_bucket(loss, policy_loss, value_loss, kl, rho)

    def _judge(self, part: Trajectories, value: Tensor, ratio: Tensor) -> Judgement:
        """By the values of the policy that learns, but for what follows a time-out, which only who acted has seen."""
        config = self.config
        last_value = self.policy.value(part.last_obs)
        steps = Steps(
            reward=config.reward_scale * part.reward + config.gamma * part.bootstrap,
            discount=config.gamma * (1 - part.done),
            valid=part.valid,
            value=value.detach(),
            next_value=torch.cat((value[:, 1:], last_value[:, None]), 1),
        )
        return vtrace(steps, ratio, config.rho_clip, config.c_clip) if config.vtrace else n_step_returns(steps)
