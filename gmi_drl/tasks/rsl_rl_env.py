"""A task as rsl_rl's `VecEnv`. Needs the extra `[rsl-rl]`."""

import time
from collections.abc import Mapping
from typing import Any, Self

from torch import Tensor

from gmi_drl.errors import MachineError
from gmi_drl.tasks.task import Task, groups_of
from gmi_drl.workload.spaces import group_kinds

try:
    from tensordict import TensorDict
except ImportError as error:
    raise MachineError(f"rsl_rl is not installed ({error}): pip install 'gmi-drl[rsl-rl]'") from error


class RslRlEnv:
    """A task as a `VecEnv` of rsl-rl-lib 5, for rsl_rl's own runner.

    For example::

        env = RslRlEnv(gmi_drl.tasks.make("ant", num_env=4096, threads=8))
        OnPolicyRunner(env, train_cfg, log_dir="logs").learn(1000, init_at_random_ep_len=True)

    The task's observations are the group `policy`, or a group for each part; Isaac Lab and mjlab add their other
    groups.

    rsl_rl cannot leave a transition out. So a step in which an environment goes bad is an end with reward 0 and no
    bootstrap. Other steps that are not valid (a simulator begins an episode, or goes on with a failed one) are
    time-outs with reward 0, to which rsl_rl adds gamma times the value of the observation before. The return that it
    learns there is nearly the value that it already has, whereas an end would teach that nothing follows.

    Args:
        task: The environments.
        reward_scale: Factor of the rewards that the learner sees, e.g. `task.spec.reward_scale`.
        clip_actions: Bound of the actions that the task receives; None for no bound but the task's own.

    Attributes:
        sim_s: Seconds spent in `step` so far.
        step_dt: Simulated seconds of a step, by which rsl_rl scales intrinsic rewards.
        cfg: A dataclass that rsl_rl's loggers upload.
    """

    def __init__(self, task: Task, reward_scale: float = 1.0, clip_actions: float | None = None) -> None:
        self.task, self.reward_scale, self.clip_actions = task, reward_scale, clip_actions
        self.num_envs, self.num_actions = task.num_env, task.spec.action.size
        self.max_episode_length = task.spec.episode_steps
        self.device, self.step_dt = task.device, task.spec.step_s or 1.0  # 0: unknown
        self.cfg = task.spec
        self.sim_s = 0.0

    @property
    def unwrapped(self) -> Self:
        """This environment, in which rsl_rl looks for `step_dt`."""
        return self

    @property
    def episode_length_buf(self) -> Tensor:
        """The task's own `episode_length` `[N]`. The runner assigns to it, to stagger the first episodes."""
        return self.task.episode_length

    @episode_length_buf.setter
    def episode_length_buf(self, steps: Tensor) -> None:
        self.task.episode_length.copy_(steps)

    def get_observations(self) -> TensorDict:
        """The current observations `[N, ...]` by group. Those of the task are copies: rsl_rl stores them later."""
        own = group_kinds(self.task.spec.observation)
        groups = {name: seen.clone() if name in own else seen for name, seen in groups_of(self.task).items()}
        return TensorDict(groups, batch_size=[self.num_envs])

    def step(self, actions: Tensor) -> tuple[TensorDict, Tensor, Tensor, dict[str, Any]]:
        """Step every environment once.

        Args:
            actions: `[N, A]`.

        Returns:
            Observations, scaled rewards `[N]`, ends `[N]`, and extras: `time_outs` `[N]`, `bad` and `valid` `[N]` as
            returned by `Task.step`, and `log`, what Isaac Lab and mjlab send to rsl_rl's logger.
        """
        start = time.perf_counter()
        if self.clip_actions is not None:
            actions = actions.clamp(-self.clip_actions, self.clip_actions)
        _, reward, terminated, truncated, info = self.task.step(actions)
        extras: dict[str, Any] = {"time_outs": truncated & ~info["bad"]}
        extras |= {name: info[name].clone() for name in ("bad", "valid")}
        log = getattr(self.task, "log", None)
        if isinstance(log, Mapping) and log:
            extras["log"] = log
        step = self.get_observations(), reward * self.reward_scale, terminated | truncated, extras
        self.sim_s += time.perf_counter() - start
        return step
