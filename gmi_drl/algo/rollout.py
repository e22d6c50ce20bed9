"""Rollouts, in preallocated tensors, and their advantages."""

from collections.abc import Iterable
from dataclasses import MISSING, dataclass, fields

import torch
from torch import Tensor

from gmi_drl.algo.networks.memory import Past
from gmi_drl.algo.sequences import cut, sizes_of, transitions_of
from gmi_drl.config.learners import OurConfig
from gmi_drl.layout.experience import RolloutForm
from gmi_drl.workload.observations import dtype_of


@dataclass
class MiniBatch:
    """Transitions to learn from, each `[B, ...]`. `valid` is 0 where the environment went wrong, else 1.

    For a policy with memories they are sequences, step by step, with the ends of episodes and the states `[Q, S]` at
    the start of each of the Q sequences.
    """

    obs: Tensor
    action: Tensor
    log_prob: Tensor
    params: Tensor
    value: Tensor
    returns: Tensor
    advantage: Tensor
    valid: Tensor
    done: Tensor | None = None
    state: Tensor | None = None

    @property
    def past(self) -> Past | None:
        """What a policy with memories needs besides the observations."""
        return None if self.state is None else Past(self.state, self.done)


BATCH = tuple(field.name for field in fields(MiniBatch) if field.default is MISSING)
"""The fields of a mini-batch that a policy without memories learns from."""


class Rollout:
    """T steps of N environments: tensors `[T, N, ...]` and facts about these steps, written in place.

    An evaluated rollout is complete: a learner needs nothing else from the agent that acted.

    Attributes:
        obs: Observations `[T, N, *shape]`; `Agent.evaluate` normalises them.
        last_obs: Raw observations `[N, *shape]` after the last step.
        params: Of the distributions that actions were drawn from, `[T, N, P]`, or as `judged.judge` leaves them; so are
            `log_prob [T, N]`, the logarithms of the densities around which PPO clips, and `log_std`.
        log_std: Of the policy that acted, for each continuous number of an action.
        delta: Of the normaliser, from the raw observations, float64 `[1 + 2 V]` for V numbers in vectors.
        sums: Sum of rewards, number of episodes that ended, sums of their returns and lengths, number of environments
            that went wrong, and sums of the K terms of the reward, float64 `[5 + K]`.
        state: Of the policy's memories, at the start of each sequence and after the last, `[T / L + 1, N, S]`; None
            without memories.
        sequence: L, steps from one of these states to the next; 0 without memories.
        terminated: 1 where the task itself ended an episode, `[T, N]`; None but for learners from replay.
        next_obs: After each step, before a reset, as `obs`; None but for rings that store it with each step.
        importance: Weights of the advantages, `[T, N]`, see `judged.judge`; None where that did not complete it.
    """

    importance: Tensor | None = None

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
        self.sequence = form.sequence
        self.state = torch.zeros(form.states_shape, device=device) if form.state_size else None
        self.sums = torch.zeros(5 + form.num_terms, dtype=torch.float64, device=device)
        self.terminated = empty() if form.next_obs is not None else None
        self.next_obs = torch.zeros_like(self.obs) if form.next_obs == "twice" else None

    @property
    def transitions(self) -> int:
        """T * N."""
        return self.horizon * self.num_env

    @property
    def units(self) -> int:
        """What mini-batches divide: transitions; with memories, sequences."""
        return self.transitions if self.state is None else self.transitions // self.sequence

    @property
    def last_past(self) -> Past | None:
        """What a policy with memories needs besides `last_obs`."""
        return None if self.state is None else Past(self.state[-1])

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
        """Normalise the advantages by their mean and standard deviation over all GMIs, then weigh them."""
        self.advantage.sub_(mean).div_(std + 1e-8).mul_(self.valid)
        if self.importance is not None:
            self.advantage.mul_(self.importance)

    def empty_batch(self) -> MiniBatch:
        """A batch of zeros for all transitions, each field `[T * N, ...]`."""
        batch = MiniBatch(**{name: torch.zeros_like(getattr(self, name)).flatten(0, 1) for name in BATCH})
        if self.state is not None:
            batch.done = torch.zeros_like(batch.valid)
            batch.state = torch.zeros_like(self.state[:-1]).flatten(0, 1)
        return batch

    def shuffle(self, permutation: Tensor, into: MiniBatch, parts: int = 1) -> None:
        """Copy all transitions into a batch made by `empty_batch`, for `split` to cut.

        Args:
            permutation: The order of the `units`.
            into: Gets them.
            parts: Into how many mini-batches `split` will cut it, in each of which sequences lie step by step.
        """
        order = permutation
        if self.state is not None and into.state is not None:
            order = transitions_of(permutation, self.sequence, self.num_env, parts)
            torch.index_select(self.state[:-1].flatten(0, 1), 0, permutation, out=into.state)
        for name, field in vars(into).items():
            if field is not None and name != "state":
                torch.index_select(getattr(self, name).flatten(0, 1), 0, order, out=field)


def sample_share_of(mine: int, group: Iterable[int], minibatches: int) -> float:
    """One GMI's share of the samples that its group learns from, the weight of its means. All shares sum to 1.

    Args:
        mine: Number of its transitions, or of other units that mini-batches divide.
        group: The numbers of all GMIs.
        minibatches: Per epoch; `split` does not use the remainder of this division.
    """
    return (mine // minibatches) / sum(theirs // minibatches for theirs in group)


def split(batch: MiniBatch, parts: int) -> list[MiniBatch]:
    """Cut a batch into views of equally many units; the remainder of the division is not used."""
    units = len(batch.obs if batch.state is None else batch.state)
    return [MiniBatch(**fields) for fields in cut(vars(batch), sizes_of(units, parts)[:parts], units)]  # type: ignore[arg-type]
