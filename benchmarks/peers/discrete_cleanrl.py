"""PPO in one file, in the manner of CleanRL, on a task with choices of envpool, by given settings."""

import argparse
from dataclasses import dataclass, field
from typing import Any

import envpool
import numpy as np
import torch
from settings import mean, read_settings, updates_of
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


class Apart(nn.Module):
    """A network for the policy, and one for the value."""

    def __init__(self, inputs: int, hidden: list[int], choices: int) -> None:
        super().__init__()
        self.actor, self.critic = mlp(inputs, hidden, choices, 0.01), mlp(inputs, hidden, 1, 1.0)

    def forward(self, obs: Tensor) -> tuple[Tensor, Tensor]:
        """Logits `[N, A]` and values `[N]`."""
        return self.actor(obs), self.critic(obs).squeeze(-1)


@dataclass
class Trainer:
    """The network, which gives logits and values, its optimizer, and the settings."""

    network: nn.Module
    given: dict[str, Any]

    def __post_init__(self) -> None:
        self.parameters = [*self.network.parameters()]
        self.optimizer = torch.optim.Adam(self.parameters, lr=self.given["learning_rate"], eps=1e-5)

    @torch.no_grad()
    def collect(self, worlds: Worlds, rollout: Rollout) -> Tensor:
        """Fill the rollout; gives the advantages `[T, N]`."""
        for t in range(len(rollout.reward)):
            rollout.obs[t], rollout.done[t] = worlds.obs, worlds.done
            logits, rollout.value[t] = self.network(worlds.obs)
            policy = Categorical(logits=logits, validate_args=False)
            action = policy.sample()
            rollout.action[t], rollout.log_prob[t] = action, policy.log_prob(action)
            rollout.reward[t] = worlds.step(action)
        _, last = self.network(worlds.obs)
        return rollout.advantages(last, worlds.done, self.given["gamma"], self.given["lam"])

    def learn(self, rollout: Rollout, advantages: Tensor) -> None:
        """The epochs of an update."""
        returns, advantages = (advantages + rollout.value).flatten(), advantages.flatten()
        obs, action, log_prob = rollout.obs.flatten(0, 1), rollout.action.flatten(), rollout.log_prob.flatten()
        for _ in range(self.given["epochs"]):
            for rows in torch.randperm(len(action)).split(self.given["batch"]):
                logits, value = self.network(obs[rows])
                policy = Categorical(logits=logits, validate_args=False)
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


def make_envs(arguments: argparse.Namespace, **more: Any) -> Any:
    """The environments of envpool that the settings name. Torch gets its threads and its seed."""
    torch.set_num_threads(arguments.threads)
    torch.manual_seed(arguments.seed)
    sizes = {"num_envs": arguments.num_env, "num_threads": arguments.threads, "seed": arguments.seed}
    return envpool.make(arguments.settings["env_id"], env_type="gymnasium", **sizes, **more)


def train(network: nn.Module, worlds: Worlds, arguments: argparse.Namespace) -> None:
    """Train by the settings until all steps are done or time is over."""
    trainer, updates = Trainer(network, arguments.settings), updates_of(arguments)
    updates.weights = sum(weights.numel() for weights in trainer.parameters)
    given, (num_env, *seen) = trainer.given, worlds.obs.shape
    shapes: tuple[tuple[int, ...], ...] = (tuple(seen), (), (), (), (), ())
    rollout, env_steps = Rollout(*(torch.zeros(given["horizon"], num_env, *shape) for shape in shapes)), 0
    while env_steps < given["steps"] and not updates.is_over:
        trainer.learn(rollout, trainer.collect(worlds, rollout))
        env_steps += given["horizon"] * num_env
        updates.report(env_steps, mean(worlds.returns), len(worlds.returns))
        worlds.returns.clear()


def main() -> None:
    """Train on a task whose observations are vectors."""
    arguments = read_settings(__doc__)
    given, num_env = arguments.settings, arguments.num_env
    envs = make_envs(arguments)
    network = Apart(envs.observation_space.shape[0], given["hidden"], int(envs.action_space.n))
    worlds = Worlds(envs, torch.from_numpy(envs.reset()[0]).float(), torch.zeros(num_env), np.zeros(num_env))
    train(network, worlds, arguments)


if __name__ == "__main__":
    main()
