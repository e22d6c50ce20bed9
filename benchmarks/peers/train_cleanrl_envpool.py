"""PPO in one file, in the manner of CleanRL, over envpool: environments in C++ threads, the rest in one process."""

from dataclasses import dataclass, field
from typing import Any

import envpool
import numpy as np
import settings
import torch
from settings import Updates, mean, read_arguments
from torch import Tensor, nn
from torch.distributions import Normal

RECENT_EPISODES = 100


def mlp(inputs: int, outputs: int, last_gain: float) -> nn.Sequential:
    """Hidden layers with ELU and a linear end, orthogonal weights."""
    layers: list[nn.Module] = []
    for width, next_width in zip((inputs, *settings.HIDDEN), (*settings.HIDDEN, outputs), strict=True):
        linear = nn.Linear(width, next_width)
        nn.init.orthogonal_(linear.weight, 2**0.5)
        nn.init.zeros_(linear.bias)
        layers += [linear, nn.ELU()]
    nn.init.orthogonal_(linear.weight, last_gain)
    return nn.Sequential(*layers[:-1])


class Agent(nn.Module):
    """The policy and the value, apart from each other."""

    def __init__(self, num_obs: int, num_actions: int) -> None:
        super().__init__()
        self.actor, self.critic = mlp(num_obs, num_actions, 0.01), mlp(num_obs, 1, 1.0)
        self.log_std = nn.Parameter(torch.zeros(num_actions))

    def policy(self, obs: Tensor) -> Normal:
        """Actions for observations."""
        return Normal(self.actor(obs), self.log_std.exp(), validate_args=False)

    def value(self, obs: Tensor) -> Tensor:
        """Values `[...]` of observations `[..., O]`."""
        return self.critic(obs).squeeze(-1)


@dataclass
class Rollout:
    """Steps `[T, N, ...]`; `done[t]` says that the episode of observation t is a new one."""

    obs: Tensor
    action: Tensor
    log_prob: Tensor
    reward: Tensor
    done: Tensor
    value: Tensor

    def advantages(self, last_value: Tensor, last_done: Tensor) -> Tensor:
        """Generalised advantage estimation."""
        advantages, advantage = torch.zeros_like(self.reward), torch.zeros_like(last_value)
        next_value, goes_on = last_value, 1 - last_done
        for t in reversed(range(len(self.reward))):
            error = self.reward[t] + settings.GAMMA * goes_on * next_value - self.value[t]
            advantage = error + settings.GAMMA * settings.LAMBDA * goes_on * advantage
            advantages[t] = advantage
            next_value, goes_on = self.value[t], 1 - self.done[t]
        return advantages


@dataclass
class Worlds:
    """The environments, where they stand, and what their last episodes have returned."""

    envs: Any
    obs: Tensor
    done: Tensor
    running: np.ndarray
    returns: list[float] = field(default_factory=list)

    def step(self, action: Tensor) -> Tensor:
        """One step of all; gives the rewards `[N]`."""
        obs, reward, terminated, truncated, _ = self.envs.step(action.numpy().clip(-1, 1).astype(np.float64))
        ended = terminated | truncated
        self.running += reward
        if ended.any():
            self.returns = [*self.returns, *self.running[ended].tolist()][-RECENT_EPISODES:]
            self.running[ended] = 0
        self.obs, self.done = torch.from_numpy(obs).float(), torch.from_numpy(ended).float()
        return torch.from_numpy(reward).float()


@torch.no_grad()
def collect(agent: Agent, worlds: Worlds, rollout: Rollout) -> Tensor:
    """Fill the rollout; gives the advantages `[T, N]`."""
    for t in range(len(rollout.reward)):
        rollout.obs[t], rollout.done[t] = worlds.obs, worlds.done
        policy = agent.policy(worlds.obs)
        action = policy.sample()
        rollout.action[t], rollout.log_prob[t] = action, policy.log_prob(action).sum(-1)
        rollout.value[t] = agent.value(worlds.obs)
        rollout.reward[t] = worlds.step(action)
    return rollout.advantages(agent.value(worlds.obs), worlds.done)


def learn(agent: Agent, optimizer: torch.optim.Optimizer, rollout: Rollout, advantages: Tensor) -> None:
    """The epochs of an update."""
    returns, advantages = (advantages + rollout.value).flatten(), advantages.flatten()
    obs, action, log_prob = rollout.obs.flatten(0, 1), rollout.action.flatten(0, 1), rollout.log_prob.flatten()
    for _ in range(settings.EPOCHS):
        for rows in torch.randperm(settings.SAMPLES).split(settings.MINI_BATCH):
            advantage = advantages[rows]
            advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
            ratio = (agent.policy(obs[rows]).log_prob(action[rows]).sum(-1) - log_prob[rows]).exp()
            surrogate = torch.max(
                -advantage * ratio, -advantage * ratio.clamp(1 - settings.CLIP, 1 + settings.CLIP)
            ).mean()
            value_loss = (agent.value(obs[rows]) - returns[rows]).square().mean()
            optimizer.zero_grad()
            (surrogate + settings.VALUE_COEF * value_loss).backward()
            nn.utils.clip_grad_norm_(agent.parameters(), settings.MAX_GRAD_NORM)
            optimizer.step()


def main() -> None:
    """Train for the time given."""
    arguments = read_arguments(__doc__)
    num_env, horizon = arguments.num_env, settings.SAMPLES // arguments.num_env
    torch.set_num_threads(arguments.threads)
    torch.manual_seed(arguments.seed)
    envs = envpool.make(
        "Ant-v5", env_type="gymnasium", num_envs=num_env, num_threads=settings.CORES, seed=arguments.seed
    )
    num_obs, num_actions = envs.observation_space.shape[0], envs.action_space.shape[0]
    agent = Agent(num_obs, num_actions)
    optimizer = torch.optim.Adam(agent.parameters(), lr=settings.LEARNING_RATE, eps=1e-5)
    worlds = Worlds(envs, torch.from_numpy(envs.reset()[0]).float(), torch.zeros(num_env), np.zeros(num_env))
    shapes = ((num_obs,), (num_actions,), (), (), (), ())
    rollout = Rollout(*(torch.zeros(horizon, num_env, *shape) for shape in shapes))
    updates, env_steps = Updates(arguments.seconds), 0
    while not updates.is_over:
        learn(agent, optimizer, rollout, collect(agent, worlds, rollout))
        env_steps += settings.SAMPLES
        updates.report(env_steps, mean(worlds.returns))


if __name__ == "__main__":
    main()
