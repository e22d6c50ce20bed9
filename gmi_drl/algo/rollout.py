"""Rollouts, in preallocated tensors, and their advantages."""

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor

from gmi_drl.config.learners import OurConfig
from gmi_drl.layout.experience import RolloutForm
from gmi_drl.workload.observations import dtype_of


@dataclass
class MiniBatch:
    """Transitions to learn from, each `[B, ...]`. `valid` is 0 where the environment went wrong, else 1."""

    obs: Tensor
    action: Tensor
    log_prob: Tensor
    params: Tensor
    value: Tensor
    returns: Tensor
    advantage: Tensor
    valid: Tensor


class Rollout:
    """T steps of N environments: tensors `[T, N, ...]` and facts about these steps, written in place.

    An evaluated rollout is complete: a learner needs nothing else from the agent that acted.

    Attributes:
        obs: Observations `[T, N, *shape]`; `Agent.evaluate` normalises them.
        last_obs: Raw observations `[N, *shape]` after the last step.
        params: Of the distributions that actions were drawn from, `[T, N, P]`.
        log_std: Of the policy that acted, for each continuous number of an action.
        delta: Of the normaliser, from the raw observations, float64 `[1 + 2 V]` for V numbers in vectors.
        sums: Sum of rewards, number of episodes that ended, sums of their returns and lengths, number of environments
            that went wrong, and sums of the K terms of the reward, float64 `[5 + K]`.
    """

    def __init__(self, form: RolloutForm, device: torch.device) -> None:
        def empty(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
            return torch.zeros(horizon, num_env, *shape, dtype=dtype, device=device)

        horizon, num_env, seen, action = form.horizon, form.num_env, form.observation, form.action
        self.horizon, self.num_env = horizon, num_env
        self.obs, self.action, self.params = (
            empty(*seen.shape, dtype=dtype_of(seen)),
            empty(action.size),
            empty(action.params),
        )
        self.log_prob, self.reward, self.value = empty(), empty(), empty()
        self.done, self.valid, self.bootstrap = empty(), empty(), empty()
        self.advantage, self.returns = empty(), empty()
        self.last_obs = torch.zeros(num_env, *seen.shape, dtype=self.obs.dtype, device=device)
        self.log_std = torch.zeros(action.numbers, device=device)
        self.delta = torch.zeros(1 + 2 * seen.vector_size, dtype=torch.float64, device=device)
        self.sums = torch.zeros(5 + form.num_terms, dtype=torch.float64, device=device)

    @property
    def transitions(self) -> int:
        """T * N."""
        return self.horizon * self.num_env

    def advantages(self, last_value: Tensor, config: OurConfig) -> None:
        """Generalised advantage estimation (Schulman et al., arXiv 1506.02438) into `advantage` and `returns`.

        `bootstrap [T, N]` is the value that follows a time-out, 0 elsewhere. A transition that is not valid has
        advantage 0, so that the steps before it get the value of the state in which the environment went wrong.

        Args:
            last_value: Values `[N]` of the observations after the last step.
            config: gamma, lam and reward_scale.
        """
        goes_on = config.gamma * (1 - self.done)
        next_value = torch.cat((self.value[1:], last_value[None]))
        error = config.reward_scale * self.reward + config.gamma * self.bootstrap + goes_on * next_value - self.value
        error, decay = error * self.valid, config.lam * goes_on * self.valid
        advantage = torch.zeros_like(last_value)
        for t in reversed(range(self.horizon)):
            advantage = torch.addcmul(error[t], decay[t], advantage, out=self.advantage[t])
        torch.add(self.advantage, self.value, out=self.returns)

    def advantage_moments(self) -> Tensor:
        """Count, mean and M2 of the valid advantages, float64 `[3]` on the device, for GMIs to merge."""
        valid, advantage = self.valid.double(), self.advantage.double()
        count = valid.sum()
        mean = advantage.sum() / count.clamp(min=1)  # the others are 0
        return torch.stack((count, mean, (valid * (advantage - mean).square()).sum()))

    def normalise_advantages(self, mean: float, std: float) -> None:
        """Normalise the advantages by their mean and standard deviation over all GMIs."""
        self.advantage.sub_(mean).div_(std + 1e-8).mul_(self.valid)

    def empty_batch(self) -> MiniBatch:
        """A batch of zeros for all transitions, each field `[T * N, ...]`."""
        fields = {name: getattr(self, name) for name in MiniBatch.__dataclass_fields__}
        return MiniBatch(**{name: torch.zeros_like(field).flatten(0, 1) for name, field in fields.items()})

    def shuffle(self, permutation: Tensor, into: MiniBatch) -> None:
        """Copy all transitions into a batch made by `empty_batch`, in the order of `permutation [T * N]`."""
        for name, field in vars(into).items():
            torch.index_select(getattr(self, name).flatten(0, 1), 0, permutation, out=field)


def sample_share_of(mine: int, group: Iterable[int], minibatches: int) -> float:
    """One GMI's share of the samples that its group learns from, the weight of its means. All shares sum to 1.

    Args:
        mine: Number of its transitions, or of other units that mini-batches divide.
        group: The numbers of all GMIs.
        minibatches: Per epoch; `split` does not use the remainder of this division.
    """
    return (mine // minibatches) / sum(theirs // minibatches for theirs in group)


def split(batch: MiniBatch, parts: int) -> list[MiniBatch]:
    """Cut a batch `[B, ...]` into views of equal length; the remainder of the division is not used."""
    length = batch.obs.shape[0] // parts
    fields = vars(batch)
    return [
        MiniBatch(**{name: tensor[i * length : (i + 1) * length] for name, tensor in fields.items()})
        for i in range(parts)
    ]
