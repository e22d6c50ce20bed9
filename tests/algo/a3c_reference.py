"""A3C as it is written: torch's layers, optimizer and autograd in float64, and V-trace number by number.

Nothing of the package is in it but the settings.
"""

import math
from itertools import product

import torch
from torch import nn
from torch.distributions import Normal


class A3CReference:
    """One learner.

    Args:
        config: Its settings.
        actor: Whose weights it begins with, as it does with those of the `critic` and `log_std`.
        seen: Observations `[n, O]` that it scales others by.

    Attributes:
        gradients: Of each step, before they are clipped, `[P]`.
    """

    def __init__(self, config, actor, log_std, critic, seen):
        self.config, self.learning_rate = config, config.learning_rate
        self.actor, self.critic = plain(actor), plain(critic)
        self.log_std = nn.Parameter(log_std.detach().double())
        self.mean, self.std = seen.double().mean(0), seen.double().std(0, correction=0)
        self.optimizer = torch.optim.Adam(self.parameters(), eps=1e-8)
        self.gradients = []

    def parameters(self):
        return [*self.actor.parameters(), self.log_std, *self.critic.parameters()]

    def flat(self):
        return torch.cat([parameter.detach().flatten() for parameter in self.parameters()])

    def update(self, batch):
        """All of a batch is judged at once; then each slice of it, in one shuffled order, is a step."""
        samples = [tensor.flatten(0, 2) for tensor in self.judged(batch)]
        order = torch.randperm(batch.reward.numel(), generator=torch.Generator().manual_seed(0))
        size = len(order) // self.config.minibatches
        for number in range(self.config.minibatches):
            part = order[number * size : (number + 1) * size]
            self.step(*(tensor[part] for tensor in samples))

    def judged(self, batch):
        """Each `[R, T, N, ...]`: scaled observations, actions, who acted, what counts, targets and advantages."""
        obs, action, log_prob, valid = self.scaled(batch.obs), *each_double(batch.action, batch.log_prob, batch.valid)
        with torch.no_grad():
            value = torch.cat((self.critic(obs), self.critic(self.scaled(batch.last_obs))[:, None]), 1)[..., 0]
            ratio = (self.log_prob(obs, action) - log_prob).exp()
        reward, done, bootstrap = each_double(batch.reward, batch.done, batch.bootstrap)
        reward, discount = (
            self.config.reward_scale * reward + self.config.gamma * bootstrap,
            self.config.gamma * (1 - done),
        )
        clips = self.config.rho_clip, self.config.c_clip
        if not self.config.vtrace:
            ratio, clips = torch.ones_like(ratio), (1.0, 1.0)
        target, advantage = torch.zeros_like(reward), torch.zeros_like(reward)
        for i, n in product(range(reward.shape[0]), range(reward.shape[2])):
            columns = (column[i, :, n].tolist() for column in (reward, discount, valid, ratio, value))
            target[i, :, n], advantage[i, :, n] = map(torch.tensor, vtrace(*columns, *clips))
        return obs, action, log_prob, valid, target, advantage

    def step(self, obs, action, behaviour, valid, target, advantage):
        config, log_prob = self.config, self.log_prob(obs, action)
        change = (log_prob - behaviour).detach()
        ratio = change.exp()
        weight = ratio.clamp(max=config.rho_clip) if config.vtrace else torch.ones_like(ratio)
        if config.clip is not None:
            weight[(ratio - 1) * advantage.sign() > config.clip] = 0
        policy_loss = -(valid * weight * advantage * log_prob).mean()
        value_loss = (valid * (self.critic(obs)[:, 0] - target) ** 2).mean()
        entropy = Normal(torch.zeros_like(self.log_std), self.log_std.exp()).entropy().sum()
        self.optimizer.zero_grad()
        (policy_loss + config.value_loss_coef * value_loss - config.entropy_coef * entropy).backward()
        self.gradients.append(torch.cat([parameter.grad.flatten() for parameter in self.parameters()]))
        self.adapt((valid * change**2).mean().item() / 2)
        for part in ([*self.actor.parameters(), self.log_std], self.critic.parameters()):
            nn.utils.clip_grad_norm_(part, config.max_grad_norm)
        self.optimizer.step()

    def adapt(self, kl):
        """The learning rate of a step and those that follow: in an update it changes by 1.5 at most."""
        factor = 1.5 ** (1 / self.config.minibatches)
        if self.config.schedule == "adaptive":
            if kl > 2 * self.config.desired_kl:
                self.learning_rate /= factor
            elif 0 < kl < self.config.desired_kl / 2:
                self.learning_rate *= factor
            self.learning_rate = min(max(self.learning_rate, 1e-5), 1e-2)
        self.optimizer.param_groups[0]["lr"] = self.learning_rate

    def log_prob(self, obs, action):
        return Normal(self.actor(obs), self.log_std.exp()).log_prob(action).sum(-1)

    def scaled(self, obs):
        return (obs.double() - self.mean) / (self.std + 0.01)


def plain(network):
    """The linear layers of a network, and ELU between them."""
    layers = []
    for layer in network:
        if isinstance(layer, nn.Linear):
            layers.append(nn.Linear(layer.in_features, layer.out_features, dtype=torch.float64))
            layers[-1].load_state_dict(layer.state_dict())
        else:
            layers.append(nn.ELU())
    return nn.Sequential(*layers)


def each_double(*tensors):
    return [tensor.double() for tensor in tensors]


def vtrace(reward, discount, valid, ratio, value, rho_clip, c_clip):
    """Targets and advantages of a world, by remark 1 and section 4.2 of arXiv 1802.01561.

    Advantages are without their rho, which is that of the policy by whose gradient they count. What is not valid
    teaches nothing, and its value follows what came before.

    Args: each `[T]`, but `value` `[T + 1]`.
    """
    horizon = len(reward)
    targets, advantages = [math.nan] * horizon, [0.0] * horizon
    follows = value[horizon]  # v_(t+1)
    for t in reversed(range(horizon)):
        if valid[t]:
            rho, c = min(rho_clip, ratio[t]), min(c_clip, ratio[t])
            delta = rho * (reward[t] + discount[t] * value[t + 1] - value[t])
            targets[t] = value[t] + delta + discount[t] * c * (follows - value[t + 1])
            advantages[t] = reward[t] + discount[t] * follows - value[t]
        else:
            targets[t] = value[t]
        follows = targets[t]
    return targets, advantages
