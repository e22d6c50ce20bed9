"""SAC over a flat bucket, whose gradients are summed over the group."""

import copy
from typing import Any

import torch
from torch import Tensor

from gmi_drl.algo.normaliser import Normaliser
from gmi_drl.algo.replay_agent import ReplayAgent
from gmi_drl.algo.replay_learner import ReplayLearner, frozen_copy
from gmi_drl.algo.sac_networks import SoftActorCritic
from gmi_drl.config.learners import SACConfig
from gmi_drl.workload import TaskSpec

BOTH, CRITICS = slice(None), slice(1, None)


class SAC(ReplayLearner[SACConfig]):
    """Soft actor-critic (Haarnoja et al., arXiv 1812.05905), with a tuned weight of the entropy.

    Policy and critics move at once, each by the others as they were: so an update has one reduction. For arguments see
    `ReplayLearner`; it needs a generator.
    """

    METRICS = ("q_loss", "q_mean", "actor_loss", "entropy")

    def __init__(self, agent: ReplayAgent, config: SACConfig, **options: Any) -> None:
        assert isinstance(agent.policy, SoftActorCritic)
        self.policy = agent.policy
        actor, size = self.policy.actor_size, sum(one.numel() for one in self.policy.parameters())
        self.target = copy.deepcopy(self.policy.critics)
        super().__init__(agent, [actor, size - actor], config, **options)
        self._critics = self.flat.vector[actor:]
        self._target = frozen_copy(self.target, self._critics).vector
        numbers = self.policy.distribution.action.numbers
        self._target_entropy = -float(numbers) if config.target_entropy is None else config.target_entropy

    def resize(self, batch: int) -> None:
        """See `ReplayLearner`."""
        super().resize(batch)
        self._noise = torch.zeros(2, batch, self.policy.distribution.action.numbers, device=self.device)

    def explore(self, steps: int) -> None:
        """See `ReplayLearner`: actions are random until the first update."""
        self.policy.exploration.fill_(0.0 if self.updates else 1.0)

    def take_step(self) -> None:
        """See `ReplayLearner`."""
        self._noise.normal_(generator=self.generator)
        is_actors = self.updates % self.config.actor_every == 0
        self.run(self._both_gradients if is_actors else self._critics_gradient)
        self.reduce(self.flat.bucket)
        self.run(self._apply_both if is_actors else self._apply_critics)

    def metrics(self) -> dict[str, float]:
        """See `ReplayLearner`. Those of the policy are means over the updates in which it moved."""
        values = self.means()
        every, before = self.config.actor_every, self.updates - self.done
        moved = self.updates // every - before // every
        for name in ("actor_loss", "entropy"):
            if name in values:
                values[name] *= self.done / max(moved, 1)
        return {**values, "alpha": float(self.policy.log_alpha.detach().exp())}

    def state_dict(self) -> dict[str, Tensor]:
        """See `ReplayLearner`."""
        return {**super().state_dict(), "target": self._target}

    def _critics_gradient(self) -> None:
        self.flat.bucket.zero_()
        obs, next_obs = self.observations()
        nothing = torch.zeros((), device=self.device)
        self.note(*self._learn_values(obs, next_obs), nothing, nothing)

    def _both_gradients(self) -> None:
        self.flat.bucket.zero_()
        obs, next_obs = self.observations()
        self.note(*self._learn_values(obs, next_obs), *self._learn_policy(obs))

    def _learn_values(self, obs: Tensor, next_obs: Tensor) -> tuple[Tensor, Tensor]:
        """Gradients of the critics. Returns their loss, and their mean value."""
        with torch.no_grad():
            action, log_prob = self.policy.sample(next_obs, self._noise[0])
            following = self.target(next_obs, action).amin(0) - self.policy.log_alpha.exp() * log_prob
            wanted = torch.addcmul(self.reward * self.config.reward_scale, self.discount, following)
        values = self.policy.critics(obs, self.fields["action"])
        error = values - wanted
        loss = 0.5 * (self.weights * error.square()).mean(1).sum()
        self.add_gradient(loss, list(self.policy.critics.parameters()))
        self.errors.copy_(error.detach().abs().mean(0))
        return loss, values.mean()

    def _learn_policy(self, obs: Tensor) -> tuple[Tensor, Tensor]:
        """Gradients of the policy and of the weight of the entropy. Returns the policy's loss, and its entropy."""
        action, log_prob = self.policy.sample(obs, self._noise[1])
        log_alpha = self.policy.log_alpha
        loss = (log_alpha.detach().exp() * log_prob - self.policy.critics(obs, action).amin(0)).mean()
        entropy = -log_prob.detach().mean()
        tuning = (log_alpha * (entropy - self._target_entropy)).sum()
        self.add_gradient(loss + tuning, self.policy.actor_parameters())
        return loss, entropy

    def _apply_both(self) -> None:
        self.apply(BOTH, self.flat.gradient.sum())
        self._follow()

    def _apply_critics(self) -> None:
        self.apply(CRITICS, self.flat.gradient.sum())
        self._follow()

    @torch.no_grad()
    def _follow(self) -> None:
        """Move the target, unless the update was skipped."""
        self._target.lerp_(self._critics, self.config.tau * (1 - self.found_inf))


def make_sac_agent(spec: TaskSpec, config: SACConfig, device: torch.device, *, seed: int) -> ReplayAgent:
    """The agent at the start of a run with this seed, the same on every GMI."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        policy = SoftActorCritic(spec, config)
    return ReplayAgent(policy.to(device), Normaliser(spec.observation, device))
