"""The agent: a policy that acts, and evaluates its own rollouts."""

from dataclasses import dataclass

import torch
from torch import Tensor

from gmi_drl.algo.networks import ActorCritic, make_policy
from gmi_drl.algo.networks.memory import Past
from gmi_drl.algo.normaliser import Normaliser
from gmi_drl.algo.rollout import Rollout
from gmi_drl.config.learners import OurConfig
from gmi_drl.workload import TaskSpec


@dataclass(frozen=True)
class Agent:
    """A policy and the scaling of its observations. A learner changes both in place.

    Attributes:
        iteration: Of the run that it was read from; 0 if it is new.
    """

    policy: ActorCritic
    normaliser: Normaliser
    iteration: int = 0

    @torch.no_grad()
    def act(self, obs: Tensor, noise: Tensor | None = None, state: Tensor | None = None) -> Tensor:
        """Actions `[N, A]` for observations: the most likely, or with noise of the distribution `[N, P]` a sample.

        A policy with memories reads and writes their `state [N, S]` (`empty_state`).
        """
        policy, scaled = self.policy, self.normaliser(obs)
        if state is None:
            return policy.mode(scaled) if noise is None else policy.act(scaled, noise)[0]
        params, _, after = policy.remember(scaled, Past(state))
        state.copy_(after)
        distribution = policy.distribution
        return distribution.mode(params) if noise is None else distribution.sample(params, policy.log_std, noise)

    @torch.no_grad()
    def sample(self, obs: Tensor, noise: Tensor, state: Tensor | None = None) -> tuple[Tensor, Tensor, Tensor | None]:
        """As `act`, with the params of the distributions `[N, P]`, and with memories the values `[N]`, too."""
        policy, scaled = self.policy, self.normaliser(obs)
        if state is None:
            return *policy.act(scaled, noise), None
        params, value, after = policy.remember(scaled, Past(state))
        state.copy_(after)
        return policy.distribution.sample(params, policy.log_std, noise), params, value

    def empty_state(self, num_env: int) -> Tensor | None:
        """The state `[N, S]` of the policy's memories when episodes begin; None without memories."""
        size = self.policy.state_size
        return self.policy.log_std.new_zeros(num_env, size) if size else None

    def receive(self, reward: Tensor, valid: Tensor, state: Tensor | None) -> None:
        """See `ActingAgent`: rewards do not count for its actions."""

    @torch.no_grad()
    def value(self, obs: Tensor, past: Past | None = None) -> Tensor:
        """Values `[N]` of observations `[N, O]`."""
        return self.policy.value(self.normaliser(obs), past)

    @torch.no_grad()
    def evaluate(self, rollout: Rollout, config: OurConfig) -> None:
        """Complete a rollout for PPO: values and densities of all steps at once, then advantages.

        The agent must be unchanged since it played the rollout. With `bootstrap: last_value` the rollout's `bootstrap
        [T, N]` is 1 where a value is wanted, else it is that value. A policy with memories has given the values with
        its actions.
        """
        rollout.obs.copy_(self.normaliser(rollout.obs))
        if rollout.state is None:
            rollout.value.copy_(self.policy.value(rollout.obs))
        rollout.log_prob.copy_(self.policy.log_prob(rollout.action, rollout.params))
        rollout.log_std.copy_(self.policy.log_std)
        if config.bootstrap == "last_value":
            rollout.bootstrap.mul_(rollout.value)
        rollout.advantages(self.value(rollout.last_obs, rollout.last_past), config)

    @torch.no_grad()
    def evaluate_actions(self, rollout: Rollout, config: OurConfig) -> None:
        """Complete a rollout for a learner on another GMI: densities, and the values that follow time-outs.

        Observations stay raw: the learner scales them by its own statistics. See `evaluate`.
        """
        if config.bootstrap == "last_value":
            rollout.bootstrap.mul_(self.value(rollout.obs) if rollout.state is None else rollout.value)
        rollout.log_prob.copy_(self.policy.log_prob(rollout.action, rollout.params))


def make_agent(spec: TaskSpec, config: OurConfig, device: torch.device, *, seed: int) -> Agent:
    """The agent at the start of a run with this seed, the same on every GMI."""
    with torch.random.fork_rng(devices=[]):  # some simulators draw from torch's own generator, and not all the same
        torch.default_generator.manual_seed(seed)
        policy = make_policy(spec, config)
    return Agent(policy.to(device), Normaliser(spec.observation, device))
