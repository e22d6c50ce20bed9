"""An agent: what acts, and judges what came of it."""

from dataclasses import dataclass

import torch
from torch import Tensor

from gmi_drl.algo.networks import ActorCritic, make_policy
from gmi_drl.algo.normaliser import Normaliser
from gmi_drl.algo.rollout import Rollout
from gmi_drl.config.learners import OurConfig
from gmi_drl.workload import TaskSpec


@dataclass(frozen=True)
class Agent:
    """A policy and the scaling of its observations. Who trains it changes both in place.

    Attributes:
        iteration: Of the run that it was read from; 0 where it was made.
    """

    policy: ActorCritic
    normaliser: Normaliser
    iteration: int = 0

    @torch.no_grad()
    def act(self, obs: Tensor, noise: Tensor | None = None) -> Tensor:
        """Actions `[N, A]` for observations `[N, O]`: the mean, or with standard normal noise `[N, A]` a sample."""
        if noise is None:
            return self.policy.actor(self.normaliser(obs))  # type: ignore[no-any-return]
        return self.sample(obs, noise)[0]

    @torch.no_grad()
    def sample(self, obs: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
        """Actions `[N, A]` for observations `[N, O]` and standard normal noise `[N, A]`, and their means `[N, A]`."""
        return self.policy.act(self.normaliser(obs), noise)

    @torch.no_grad()
    def value(self, obs: Tensor) -> Tensor:
        """Values `[N]` of observations `[N, O]`."""
        return self.policy.value(self.normaliser(obs))

    @torch.no_grad()
    def judge(self, rollout: Rollout, config: OurConfig) -> None:
        """Complete a rollout that this agent has played, as long as it is the one that played it.

        Values and densities come in one pass over all steps, then advantages. With `bootstrap: last_value` the
        rollout's `bootstrap [T, N]` says where a value is wanted, else it is that value.
        """
        rollout.obs.copy_(self.normaliser(rollout.obs))
        rollout.value.copy_(self.policy.value(rollout.obs))
        rollout.log_prob.copy_(self.policy.log_prob(rollout.action, rollout.mean))
        rollout.log_std.copy_(self.policy.log_std)
        if config.bootstrap == "last_value":
            rollout.bootstrap.mul_(rollout.value)
        rollout.advantages(self.value(rollout.last_obs), config)


def make_agent(spec: TaskSpec, config: OurConfig, device: torch.device, *, seed: int) -> Agent:
    """The agent that a run of this seed begins with, the same on every GMI."""
    with torch.random.fork_rng(devices=[]):  # some simulators draw from torch's own generator, and not all the same
        torch.default_generator.manual_seed(seed)
        policy = make_policy(spec, config)
    return Agent(policy.to(device), Normaliser(spec.num_obs, device))
