"""The agent of the sequence policy: it keeps the context of each world, and what return is still to come."""

from dataclasses import dataclass

import torch
from torch import Tensor

from gmi_drl.algo.normaliser import Normaliser
from gmi_drl.algo.sequence_policy import SequencePolicy
from gmi_drl.config.learners.sequence import SequenceConfig
from gmi_drl.workload import TaskSpec
from gmi_drl.workload.spaces import Observation

COUNT, GOT, STEPS = 0, 1, 2
"""Places in a world's state: steps of its context, rewards so far; from then on the steps."""


class SequenceScaling(Normaliser):
    """Scales observations and returns, by what the recorded episodes are like.

    Attributes:
        statistics: As of `Normaliser`, then the return that is asked for, and the one that is scaled to 1.
        target: The return that is asked for, `[]`.
        unit: The return that is scaled to 1, `[]`.
    """

    def __init__(self, observation: Observation, device: torch.device) -> None:
        super().__init__(observation, device)
        self.target, self.unit = torch.zeros((), device=device), torch.ones((), device=device)
        self.statistics = torch.cat((self.statistics, torch.tensor([0.0, 1.0], dtype=torch.float64)))

    def load(self, statistics: Tensor) -> None:
        """See `Normaliser`."""
        super().load(statistics[:-2])
        self.statistics = statistics.clone()
        self.target.copy_(statistics[-2])
        self.unit.copy_(statistics[-1])


@dataclass(frozen=True)
class SequenceAgent:
    """A sequence policy and its scaling. A learner changes both in place.

    A world's state has the steps of its context, oldest first, and what it got so far. With zeros an episode begins.

    Attributes:
        iteration: Of the run that it was read from; 0 if it is new.
    """

    policy: SequencePolicy
    normaliser: SequenceScaling
    iteration: int = 0

    @torch.no_grad()
    def act(self, obs: Tensor, noise: Tensor | None = None, state: Tensor | None = None) -> Tensor:
        """Actions `[N, A]` for observations: the most likely, or with noise `[N, P]` a sample.

        Reads and writes the `state [N, S]` of the worlds (`empty_state`); without one their episodes begin.
        """
        return self._act(obs, noise, self.empty_state(len(obs)) if state is None else state)[0]

    @torch.no_grad()
    def sample(self, obs: Tensor, noise: Tensor, state: Tensor | None = None) -> tuple[Tensor, Tensor, Tensor | None]:
        """See `ActingAgent`."""
        return *self._act(obs, noise, self.empty_state(len(obs)) if state is None else state), None

    def empty_state(self, num_env: int) -> Tensor:
        """The state `[N, S]` of worlds in which episodes begin."""
        policy = self.policy
        step = 1 + policy.observation.size + policy.distribution.action.size
        return policy.log_std.new_zeros(num_env, STEPS + policy.context * step)

    def receive(self, reward: Tensor, valid: Tensor, state: Tensor | None) -> None:
        """See `ActingAgent`: so much less is still to come. Recorded episodes have no steps that begin one."""
        if state is not None:
            state[:, GOT] += reward
            state.masked_fill_(~valid[:, None], 0)

    def _act(self, obs: Tensor, noise: Tensor | None, state: Tensor) -> tuple[Tensor, Tensor]:
        """Actions and their params, after the present step was added to the state."""
        policy, kind = self.policy, self.policy.distribution
        steps = state[:, STEPS:].view(len(obs), policy.context, -1)
        of_obs, of_action = (slice(1, 1 + obs.shape[1]), slice(1 + obs.shape[1], None))
        count = state[:, COUNT]
        is_full = (count >= policy.context)[:, None, None]
        steps.copy_(torch.where(is_full, steps.roll(-1, 1), steps))
        place = count.clamp(max=policy.context - 1).long()[:, None, None]
        count.add_(1).clamp_(max=policy.context)
        new = torch.cat((state[:, GOT, None], obs, obs.new_zeros(len(obs), kind.action.size)), 1)[:, None]
        steps.scatter_(1, place.expand_as(new), new)
        scaling = self.normaliser
        to_go = (scaling.target - steps[..., 0]) / scaling.unit
        params = policy(to_go, scaling(steps[..., of_obs]), steps[..., of_action])  # later places do not count
        own = params.gather(1, place.expand(-1, 1, params.shape[2]))[:, 0]
        action = kind.mode(own) if noise is None else kind.sample(own, policy.log_std, noise)
        steps[..., of_action].scatter_(1, place.expand(-1, 1, action.shape[1]), action[:, None])
        return action, own


def make_sequence_agent(spec: TaskSpec, config: SequenceConfig, device: torch.device, *, seed: int) -> SequenceAgent:
    """The agent at the start of a run with this seed, the same on every GMI."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        policy = SequencePolicy(spec, config)
    return SequenceAgent(policy.to(device), SequenceScaling(spec.observation, device))
