"""Experience collection: simulator and agent take turns on one GMI, `horizon` times (paper section 5.1, stage i)."""

import torch
from torch import Tensor

from gmi_drl.algo.networks import ActorCritic
from gmi_drl.algo.normaliser import Normaliser
from gmi_drl.algo.rollout import Rollout
from gmi_drl.config import PPOConfig
from gmi_drl.roles.phases import PhaseClock
from gmi_drl.run.checkpoint import prefixed, with_prefix
from gmi_drl.tasks import Task


class Collector:
    """Fills a rollout in place; nothing within the horizon waits for the device.

    `episodes [4]` sums over the last rollout: episodes that ended, their returns and lengths, worlds that went wrong.
    """

    def __init__(
        self, task: Task, policy: ActorCritic, normaliser: Normaliser, config: PPOConfig, generator: torch.Generator
    ) -> None:
        self.task, self.policy, self.normaliser = task, policy, normaliser
        self.config, self.generator = config, generator
        self.rollout = Rollout(config.horizon, task.num_env, task.spec.num_obs, task.spec.num_actions, task.device)
        self.episode_return = torch.zeros(task.num_env, device=task.device)
        self.episode_length = torch.zeros(task.num_env, device=task.device)
        self.episodes = torch.zeros(4, dtype=torch.float64, device=task.device)
        self._stagger()

    @torch.no_grad()
    def collect(self, clock: PhaseClock) -> Tensor:
        """Play `horizon` steps and judge them. Returns the normaliser's delta for the observations seen."""
        self.episodes.zero_()
        for t in range(self.config.horizon):
            action = self._act(t)
            clock.mark("act_s")
            _, reward, terminated, truncated, info = self.task.step(action)
            clock.mark("sim_s")
            self.rollout.reward[t] = reward
            self._account(t, reward, terminated | truncated, info["bad"])
            self._bootstrap(t, truncated & ~info["bad"], info["final_obs"])
        return self._judge()

    def state_dict(self) -> dict[str, Tensor]:
        """What the next rollout depends on, beside the policy: the task's state, the generator, running episodes."""
        own = {"episode_return": self.episode_return, "episode_length": self.episode_length}
        return prefixed("task", self.task.state_dict()) | own | {"generator": self.generator.get_state()}

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Continue from `state_dict`, bit-identically."""
        self.task.load_state_dict(with_prefix("task", state))
        self.episode_return.copy_(state["episode_return"])
        self.episode_length.copy_(state["episode_length"])
        self.generator.set_state(state["generator"])

    def _stagger(self) -> None:
        """Let first episodes time out at different steps, as rsl_rl can: else worlds that never fall end together."""
        steps = (0, self.task.spec.episode_steps)
        shape = self.task.episode_length.shape
        self.task.episode_length.copy_(torch.randint(*steps, shape, generator=self.generator, device=self.task.device))

    def _act(self, t: int) -> Tensor:
        rollout = self.rollout
        rollout.obs[t] = self.task.obs
        action, log_prob, mean = self.policy.act(self.normaliser(self.task.obs), self.generator)
        rollout.action[t], rollout.log_prob[t], rollout.mean[t] = action, log_prob, mean
        return action

    def _account(self, t: int, reward: Tensor, done: Tensor, bad: Tensor) -> None:
        """Keep the running returns, and sum up the episodes that ended well or badly but not wrongly."""
        goes_on = (~done).float()
        self.rollout.done[t] = 1 - goes_on
        self.rollout.valid[t] = (~bad).float()
        self.episode_return += reward
        self.episode_length += 1
        ended = (done & ~bad).float()
        sums = (ended.sum(), (ended * self.episode_return).sum(), (ended * self.episode_length).sum(), bad.sum())
        self.episodes += torch.stack(sums)
        self.episode_return *= goes_on
        self.episode_length *= goes_on

    def _bootstrap(self, t: int, timed_out: Tensor, final_obs: Tensor) -> None:
        """The value that follows a time-out (`bootstrap: final_obs`)."""
        if self.config.bootstrap == "last_value":
            self.rollout.bootstrap[t] = timed_out.float()  # times the value, which is known after the horizon
        elif timed_out.device.type != "cpu" or timed_out.any():  # asking a GPU would wait for it
            self.rollout.bootstrap[t] = self.policy.value(self.normaliser(final_obs)) * timed_out
        else:
            self.rollout.bootstrap[t] = 0

    def _judge(self) -> Tensor:
        """Values in one pass over all steps (the policy has not changed), then advantages."""
        rollout = self.rollout
        delta = self.normaliser.delta(rollout.obs)
        rollout.obs.copy_(self.normaliser(rollout.obs))
        rollout.value.copy_(self.policy.value(rollout.obs))
        if self.config.bootstrap == "last_value":
            rollout.bootstrap.mul_(rollout.value)
        rollout.advantages(self.policy.value(self.normaliser(self.task.obs)), self.config)
        return delta
