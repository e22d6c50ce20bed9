"""DQN and SAC by a loop each, in the manner of CleanRL: one environment, plain torch, a replay of numpy arrays."""

import copy
from argparse import Namespace

import gymnasium
import numpy as np
import torch
from off_policy_settings import ENVIRONMENTS, HIDDEN, MAX_GRAD_NORM, SAC, ZOO, Progress, read_off_policy_arguments
from torch import Tensor, nn
from torch.distributions import Normal
from torch.nn.functional import mse_loss, smooth_l1_loss

LOG_STD = (-20.0, 2.0)


def mlp(inputs: int, outputs: int) -> nn.Sequential:
    """Two hidden layers with ReLU and a linear end."""
    first, second = HIDDEN
    return nn.Sequential(
        nn.Linear(inputs, first), nn.ReLU(), nn.Linear(first, second), nn.ReLU(), nn.Linear(second, outputs)
    )


class Replay:
    """Transitions in arrays, the oldest written over."""

    def __init__(self, size: int, world: gymnasium.Env) -> None:
        shape, action = world.observation_space.shape, world.action_space
        self.obs, self.next_obs = (np.zeros((size, *shape), np.float32) for _ in range(2))
        self.action = np.zeros((size, *action.shape), action.dtype)
        self.reward, self.terminated = np.zeros(size, np.float32), np.zeros(size, np.float32)
        self.size, self.count = size, 0

    def add(self, obs: np.ndarray, action: np.ndarray, reward: float, next_obs: np.ndarray, terminated: bool) -> None:
        """Write a transition."""
        at = self.count % self.size
        self.obs[at], self.action[at], self.reward[at] = obs, action, reward
        self.next_obs[at], self.terminated[at] = next_obs, terminated
        self.count += 1

    def sample(self, batch: int) -> tuple[Tensor, ...]:
        """Observations, actions, rewards, next observations, and 1 where the episode terminated."""
        rows = np.random.randint(0, min(self.count, self.size), batch)
        parts = (self.obs, self.action, self.reward, self.next_obs, self.terminated)
        return tuple(torch.from_numpy(part[rows]) for part in parts)


class Dqn:
    """The network of values, its target and Adam; trains at once after every `train_freq` steps."""

    def __init__(self, arguments: Namespace, world: gymnasium.Env) -> None:
        self.values = mlp(world.observation_space.shape[0], int(world.action_space.n))
        self.target = copy.deepcopy(self.values)
        self.adam = torch.optim.Adam(self.values.parameters(), lr=ZOO["learning_rate"])
        self.replay = Replay(ZOO["buffer_size"], world)
        self.world, self.starts = world, arguments.learning_starts
        self.explores = ZOO["exploration_fraction"] * arguments.env_steps

    def weights(self) -> int:
        """How many the network has."""
        return sum(weights.numel() for weights in self.values.parameters())

    @torch.no_grad()
    def greedy(self, obs: np.ndarray) -> int:
        """The action without noise."""
        return int(self.values(torch.from_numpy(obs)).argmax())

    def act(self, obs: np.ndarray, step: int) -> int:
        """The action with noise."""
        epsilon = max(ZOO["exploration_final_eps"], 1 + (ZOO["exploration_final_eps"] - 1) * step / self.explores)
        random = step < self.starts or np.random.random() < epsilon
        return int(self.world.action_space.sample()) if random else self.greedy(obs)

    def learn(self, step: int) -> None:
        """What is due after a step."""
        if step % ZOO["target_update_interval"] == 0:
            self.target.load_state_dict(self.values.state_dict())
        if step > self.starts and step % ZOO["train_freq"] == 0:
            for _ in range(ZOO["gradient_steps"]):
                self.update()

    def update(self) -> None:
        """One update."""
        obs, action, reward, next_obs, terminated = self.replay.sample(ZOO["batch_size"])
        with torch.no_grad():
            goal = reward + ZOO["gamma"] * (1 - terminated) * self.target(next_obs).max(dim=1).values
        loss = smooth_l1_loss(self.values(obs).gather(1, action[:, None]).squeeze(1), goal)
        self.adam.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(self.values.parameters(), MAX_GRAD_NORM)
        self.adam.step()


class Sac:
    """The policy, two critics with targets, and the weight of the entropy; trains after every step."""

    def __init__(self, arguments: Namespace, world: gymnasium.Env) -> None:
        num_obs, self.actions = world.observation_space.shape[0], world.action_space.shape[0]
        self.policy = mlp(num_obs, 2 * self.actions)
        self.critics = nn.ModuleList(mlp(num_obs + self.actions, 1) for _ in range(2))
        self.targets = copy.deepcopy(self.critics)
        self.log_alpha = torch.zeros((), requires_grad=True)
        self.adams = [
            torch.optim.Adam(each, lr=SAC["learning_rate"])
            for each in (self.policy.parameters(), self.critics.parameters(), [self.log_alpha])
        ]
        self.replay = Replay(SAC["buffer_size"], world)
        self.world, self.starts = world, arguments.learning_starts

    def weights(self) -> int:
        """How many the networks have."""
        return sum(weights.numel() for part in (self.policy, self.critics) for weights in part.parameters())

    @torch.no_grad()
    def greedy(self, obs: np.ndarray) -> np.ndarray:
        """The action without noise."""
        return self.policy(torch.from_numpy(obs).float())[: self.actions].tanh().numpy()

    @torch.no_grad()
    def act(self, obs: np.ndarray, step: int) -> np.ndarray:
        """The action with noise."""
        if step < self.starts:
            return self.world.action_space.sample()
        return self.sample(torch.from_numpy(obs).float()[None])[0][0].numpy()

    def sample(self, obs: Tensor) -> tuple[Tensor, Tensor]:
        """Actions `[B, A]` in -1 to 1, and the logarithms of their densities `[B]`."""
        mean, log_std = self.policy(obs).chunk(2, dim=-1)
        normal = Normal(mean, log_std.clamp(*LOG_STD).exp(), validate_args=False)
        raw = normal.rsample()
        action = raw.tanh()
        return action, (normal.log_prob(raw) - torch.log(1 - action.square() + 1e-6)).sum(-1)

    def learn(self, step: int) -> None:
        """What is due after a step."""
        if step > self.starts:
            self.update()

    def update(self) -> None:
        """One update."""
        obs, action, reward, next_obs, terminated = self.replay.sample(SAC["batch_size"])
        drawn, log_prob = self.sample(obs)
        alpha = self.log_alpha.exp().detach()
        with torch.no_grad():
            next_action, next_log_prob = self.sample(next_obs)
            least = worst(self.targets, next_obs, next_action) - alpha * next_log_prob
            goal = reward + SAC["gamma"] * (1 - terminated) * least
        pairs = torch.cat((obs, action), dim=1)
        errors = torch.stack([mse_loss(critic(pairs).squeeze(1), goal) for critic in self.critics]).sum() / 2
        policy_adam, critics_adam, alpha_adam = self.adams
        descend(critics_adam, errors)
        descend(policy_adam, (alpha * log_prob - worst(self.critics, obs, drawn)).mean())
        descend(alpha_adam, -(self.log_alpha * (log_prob.detach() - self.actions)).mean())
        with torch.no_grad():
            for target, weights in zip(self.targets.parameters(), self.critics.parameters(), strict=True):
                target.lerp_(weights, SAC["tau"])


def worst(critics: nn.ModuleList, obs: Tensor, action: Tensor) -> Tensor:
    """The lesser value `[B]` of two critics."""
    pairs = torch.cat((obs, action), dim=1)
    return torch.min(*(critic(pairs) for critic in critics)).squeeze(1)


def descend(adam: torch.optim.Optimizer, loss: Tensor) -> None:
    """One step of Adam."""
    adam.zero_grad()
    loss.backward()
    adam.step()


def main() -> None:
    """Train for a number of steps; some lines have the mean return of episodes without noise, also the last one."""
    arguments = read_off_policy_arguments(__doc__)
    torch.set_num_threads(arguments.threads)
    torch.manual_seed(arguments.seed)
    np.random.seed(arguments.seed)
    world = gymnasium.make(ENVIRONMENTS[arguments.algo])
    world.action_space.seed(arguments.seed)
    learner = {"dqn": Dqn, "sac": Sac}[arguments.algo](arguments, world)
    progress = Progress(arguments, learner.greedy, learner.weights())
    obs, step = world.reset(seed=arguments.seed)[0], 0
    while step < arguments.env_steps and not progress.updates.is_over:
        action = learner.act(obs, step)
        next_obs, reward, terminated, truncated, _ = world.step(action)
        learner.replay.add(obs, action, float(reward), next_obs, terminated)
        obs = world.reset()[0] if terminated or truncated else next_obs
        step += 1
        learner.learn(step)
        progress.stepped(step)
    progress.end(step)


if __name__ == "__main__":
    main()
