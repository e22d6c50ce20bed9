"""PPO in one file, in the manner of CleanRL, on a task with choices of envpool, by given settings."""

import json
from dataclasses import dataclass, field
from typing import Any

import envpool
import numpy as np
import torch
from settings import Updates, make_parser, mean
from torch import Tensor, nn
from torch.distributions import Categorical


def mlp(inputs: int, hidden: list[int], outputs: int, last_gain: float) -> nn.Sequential:
    """Hidden layers with tanh and a linear end, orthogonal weights."""
    layers: list[nn.Module] = []
    for width, next_width in zip((inputs, *hidden), (*hidden, outputs), strict=True):
        linear = nn.Linear(width, next_width)
        nn.init.orthogonal_(linear.weight, 2**0.5)
        nn.init.zeros_(linear.bias)
        layers += [linear, nn.Tanh()]
    nn.init.orthogonal_(linear.weight, last_gain)
    return nn.Sequential(*layers[:-1])


@dataclass
class Rollout:
    """Steps `[T, N, ...]`; `done[t]` says that the episode of observation t is a new one."""

    obs: Tensor
    action: Tensor
    log_prob: Tensor
    reward: Tensor
    done: Tensor
    value: Tensor

    def advantages(self, last_value: Tensor, last_done: Tensor, gamma: float, lam: float) -> Tensor:
        """Generalised advantage estimation."""
        advantages, advantage = torch.zeros_like(self.reward), torch.zeros_like(last_value)
        next_value, goes_on = last_value, 1 - last_done
        for t in reversed(range(len(self.reward))):
            error = self.reward[t] + gamma * goes_on * next_value - self.value[t]
            advantage = error + gamma * lam * goes_on * advantage
            advantages[t] = advantage
            next_value, goes_on = self.value[t], 1 - self.done[t]
        return advantages


@dataclass
class Worlds:
    """The environments, where they stand, and what the episodes of this update have returned."""

    envs: Any
    obs: Tensor
    done: Tensor
    running: np.ndarray
    returns: list[float] = field(default_factory=list)

    def step(self, action: Tensor) -> Tensor:
        """One step of all; gives the rewards `[N]`."""
        obs, reward, terminated, truncated, _ = self.envs.step(action.numpy().astype(np.int32))
        ended = terminated | truncated
        self.running += reward
        if ended.any():
            self.returns += self.running[ended].tolist()
            self.running[ended] = 0
        self.obs, self.done = torch.from_numpy(obs).float(), torch.from_numpy(ended).float()
        return torch.from_numpy(reward).float()


@dataclass
class Trainer:
    """The policy, the value, their optimizer, and the settings."""

    actor: nn.Module
    critic: nn.Module
    given: dict[str, Any]

    def __post_init__(self) -> None:
        self.parameters = [*self.actor.parameters(), *self.critic.parameters()]
        self.optimizer = torch.optim.Adam(self.parameters, lr=self.given["learning_rate"], eps=1e-5)

    @torch.no_grad()
    def collect(self, worlds: Worlds, rollout: Rollout) -> Tensor:
        """Fill the rollout; gives the advantages `[T, N]`."""
        for t in range(len(rollout.reward)):
            rollout.obs[t], rollout.done[t] = worlds.obs, worlds.done
            policy = Categorical(logits=self.actor(worlds.obs), validate_args=False)
            action = policy.sample()
            rollout.action[t], rollout.log_prob[t] = action, policy.log_prob(action)
            rollout.value[t] = self.critic(worlds.obs).squeeze(-1)
            rollout.reward[t] = worlds.step(action)
        last = self.critic(worlds.obs).squeeze(-1)
        return rollout.advantages(last, worlds.done, self.given["gamma"], self.given["lam"])

    def learn(self, rollout: Rollout, advantages: Tensor) -> None:
        """The epochs of an update."""
        returns, advantages = (advantages + rollout.value).flatten(), advantages.flatten()
        obs, action, log_prob = rollout.obs.flatten(0, 1), rollout.action.flatten(), rollout.log_prob.flatten()
        for _ in range(self.given["epochs"]):
            for rows in torch.randperm(len(action)).split(self.given["batch"]):
                policy = Categorical(logits=self.actor(obs[rows]), validate_args=False)
                value = self.critic(obs[rows]).squeeze(-1)
                surrogate = self._surrogate(policy.log_prob(action[rows]) - log_prob[rows], advantages[rows])
                value_loss = (value - returns[rows]).square().mean()
                loss = surrogate + self.given["value"] * value_loss - self.given["entropy"] * policy.entropy().mean()
                self.optimizer.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(self.parameters, self.given["max_grad_norm"])
                self.optimizer.step()

    def _surrogate(self, log_ratio: Tensor, advantage: Tensor) -> Tensor:
        advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
        ratio, clip = log_ratio.exp(), self.given["clip"]
        return torch.max(-advantage * ratio, -advantage * ratio.clamp(1 - clip, 1 + clip)).mean()


def main() -> None:
    """Train by the settings given."""
    parser = make_parser(__doc__)
    parser.add_argument("--settings", type=json.loads, required=True, help="fields of discrete_tasks.Settings, as JSON")
    arguments = parser.parse_args()
    given, num_env = arguments.settings, arguments.num_env
    torch.set_num_threads(arguments.threads)
    torch.manual_seed(arguments.seed)
    envs = envpool.make(
        given["env_id"], env_type="gymnasium", num_envs=num_env, num_threads=arguments.threads, seed=arguments.seed
    )
    num_obs, choices = envs.observation_space.shape[0], int(envs.action_space.n)
    actor, critic = mlp(num_obs, given["hidden"], choices, 0.01), mlp(num_obs, given["hidden"], 1, 1.0)
    trainer = Trainer(actor, critic, given)
    worlds = Worlds(envs, torch.from_numpy(envs.reset()[0]).float(), torch.zeros(num_env), np.zeros(num_env))
    rollout = Rollout(*(torch.zeros(given["horizon"], num_env, *shape) for shape in ((num_obs,), (), (), (), (), ())))
    updates, env_steps = Updates(arguments.seconds), 0
    while env_steps < given["steps"] and not updates.is_over:
        trainer.learn(rollout, trainer.collect(worlds, rollout))
        env_steps += given["horizon"] * num_env
        updates.report(env_steps, mean(worlds.returns), len(worlds.returns))
        worlds.returns.clear()


if __name__ == "__main__":
    main()
