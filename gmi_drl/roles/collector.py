"""Experience collection: simulator and agent take turns on one GMI, `horizon` times (paper section 5.1, stage i)."""

import torch
from torch import Tensor

from gmi_drl.algo.captured import Captured
from gmi_drl.algo.networks import ActorCritic
from gmi_drl.algo.normaliser import Normaliser
from gmi_drl.algo.rollout import Rollout
from gmi_drl.learners import PPOConfig
from gmi_drl.roles.phases import PhaseClock
from gmi_drl.run.checkpoint import prefixed, with_prefix
from gmi_drl.tasks import Task


class Collector:
    """Fills a rollout in place; nothing within the horizon waits for the device.

    `episodes [4]` sums over the last rollout: episodes that ended, their returns and lengths, worlds that went wrong.
    First episodes, which are cut short to stagger them, count like others, as with rsl_rl.
    `capture` replays what the agent does between two steps of the simulator as CUDA graphs, on a GPU.
    """

    def __init__(
        self,
        task: Task,
        policy: ActorCritic,
        normaliser: Normaliser,
        config: PPOConfig,
        generator: torch.Generator,
        *,
        capture: bool = True,
    ) -> None:
        self.task, self.policy, self.normaliser = task, policy, normaliser
        self.config, self.generator = config, generator
        self.rollout = Rollout(config.horizon, task.num_env, task.spec.num_obs, task.spec.num_actions, task.device)
        self.episode = torch.zeros(2, task.num_env, device=task.device)  # returns and lengths so far
        self.episodes = torch.zeros(4, dtype=torch.float64, device=task.device)
        self._obs, self._last_obs, self._final_obs = (torch.zeros_like(task.obs) for _ in range(3))
        self._noise, self._action, self._mean = (torch.zeros_like(self.rollout.action[0]) for _ in range(3))
        self._final_value = torch.zeros(task.num_env, device=task.device)
        self._act_on_obs = Captured(self._act, task.device, is_on=capture)
        self._value_final_obs = Captured(self._value, task.device, is_on=capture)
        self._judge_all = Captured(self._judge, task.device, is_on=capture)
        self._stagger()

    @torch.no_grad()
    def collect(self, clock: PhaseClock) -> Tensor:
        """Play `horizon` steps and judge them. Returns the normaliser's delta for the observations seen."""
        rollout = self.rollout
        rollout.bootstrap.zero_()
        self.episodes.zero_()
        noise = torch.randn(rollout.action.shape, generator=self.generator, device=self.task.device)
        for t in range(self.config.horizon):
            self._obs.copy_(self.task.obs)
            self._noise.copy_(noise[t])
            self._act_on_obs()
            rollout.obs[t], rollout.action[t], rollout.mean[t] = self._obs, self._action, self._mean
            clock.mark("act_s")
            _, reward, terminated, truncated, info = self.task.step(self._action)
            clock.mark("sim_s")
            rollout.reward[t], rollout.done[t], rollout.valid[t] = reward, terminated | truncated, info["valid"]
            self.episodes[3] += info["bad"].sum()
            self._bootstrap(t, truncated & info["valid"], info["final_obs"])
        self._account()
        delta = self.normaliser.delta(rollout.obs)
        self._last_obs.copy_(self.task.obs)
        self._judge_all()
        return delta

    def state_dict(self) -> dict[str, Tensor]:
        """What the next rollout depends on, beside the policy: the task's state, the generator, running episodes."""
        own = {"episode": self.episode, "generator": self.generator.get_state()}
        return prefixed("task", self.task.state_dict()) | own

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Continue from `state_dict`, bit-identically; with new episodes where the task could give no state."""
        worlds = with_prefix("task", state)
        self.task.load_state_dict(worlds)
        self.generator.set_state(state["generator"])
        self.episode.copy_(state["episode"])
        if not worlds:
            self.episode.zero_()
            self._stagger()

    def _stagger(self) -> None:
        """Let first episodes time out at different steps, as rsl_rl can: else worlds that never fall end together."""
        if self.task.counts_by_itself:
            return
        steps = (0, self.task.spec.episode_steps)
        shape = self.task.episode_length.shape
        self.task.episode_length.copy_(torch.randint(*steps, shape, generator=self.generator, device=self.task.device))

    @torch.no_grad()
    def _act(self) -> None:
        """What the agent does about `_obs`."""
        action, mean = self.policy.act(self.normaliser(self._obs), self._noise)
        self._action.copy_(action)
        self._mean.copy_(mean)

    @torch.no_grad()
    def _value(self) -> None:
        self._final_value.copy_(self.policy.value(self.normaliser(self._final_obs)))

    def _bootstrap(self, t: int, timed_out: Tensor, final_obs: Tensor) -> None:
        """The value that follows a time-out (`bootstrap: final_obs`)."""
        if self.config.bootstrap == "last_value":
            self.rollout.bootstrap[t] = timed_out  # times the value, which is known after the horizon
        elif timed_out.device.type != "cpu" or timed_out.any():  # asking a GPU would wait for it
            self._final_obs.copy_(final_obs)
            self._value_final_obs()
            torch.mul(self._final_value, timed_out, out=self.rollout.bootstrap[t])

    def _account(self) -> None:
        """Keep the running returns and lengths, and sum up the episodes that ended well or badly but not wrongly."""
        rollout = self.rollout
        so_far = torch.stack((rollout.reward, torch.ones_like(rollout.reward)), 1)  # [T, 2, N]
        for now, goes_on in zip(so_far, 1 - rollout.done, strict=True):
            torch.mul(now.add_(self.episode), goes_on, out=self.episode)
        ended = rollout.done * rollout.valid
        sums = (so_far * ended[:, None]).sum((0, 2), dtype=torch.float64)
        self.episodes[:3] = torch.stack((ended.sum(), *sums))

    @torch.no_grad()
    def _judge(self) -> None:
        """Values and densities in one pass over all steps (the policy has not changed), then advantages."""
        rollout = self.rollout
        rollout.obs.copy_(self.normaliser(rollout.obs))
        rollout.value.copy_(self.policy.value(rollout.obs))
        rollout.log_prob.copy_(self.policy.log_prob(rollout.action, rollout.mean))
        if self.config.bootstrap == "last_value":
            rollout.bootstrap.mul_(rollout.value)
        rollout.advantages(self.policy.value(self.normaliser(self._last_obs)), self.config)
