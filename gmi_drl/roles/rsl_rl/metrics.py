"""The metrics of an iteration of rsl_rl, taken from what its runner gives to its logger."""

import traceback
from collections.abc import Callable
from threading import Thread
from typing import Any

import torch
from torch import Tensor

from gmi_drl.tasks.rsl_rl_env import RslRlEnv

STOP_S = 60.0
"""Seconds to wait for the last uploads of a logger."""


class IterationMetrics:
    """Replaces the runner's logger: sums up an iteration, and forwards everything to the logger, if there is one.

    If the logger fails in any way, it is dropped with a warning, and the training goes on.

    Returns are those of the task, not scaled. An environment that went wrong ends without counting as an episode.

    Args:
        env: Of the runner.
        logger: The runner's own; `open` opens it.
        iterations: Of the whole run, for the logger to show.

    Attributes:
        collect_s: Seconds of the last rollout.
        learn_s: Seconds of the last update.
        losses: Means over the last update, by rsl_rl's names.
        warnings: Texts for the user, each to be shown once.
    """

    writer = None  # so that the runner saves nothing: the role writes checkpoints

    def __init__(self, env: RslRlEnv, logger: Any = None, iterations: int = 0) -> None:
        self.env, self.logger, self.iterations = env, logger, iterations
        self.collect_s = self.learn_s = 0.0
        self.losses: dict[str, float] = {}
        self.warnings: list[str] = []
        self.running_episodes = torch.zeros(2, env.num_envs, device=env.device)  # returns and lengths so far
        self.sums = torch.zeros(5, dtype=torch.float64, device=env.device)
        self._first: int | None = None

    def open(self) -> None:
        """Let the logger open its writer, which uploads the configuration."""
        self._forward("init_logging_writer")

    def close(self) -> None:
        """Let the logger's writer finish, for at most `STOP_S`."""
        thread = Thread(target=self._finish, daemon=True)
        thread.start()
        thread.join(STOP_S)
        if thread.is_alive():
            self._drop_logger(f"has not finished within {STOP_S:.0f} s")

    def init_logging_writer(self) -> None:
        """Do nothing at each `learn`: `open` has opened the writer."""

    def process_env_step(
        self, rewards: Tensor, dones: Tensor, extras: dict[str, Any], intrinsic_rewards: Tensor | None = None
    ) -> None:
        """Add a step."""
        reward = rewards / self.env.reward_scale
        self.running_episodes += torch.stack((reward, torch.ones_like(reward)))
        ended = dones & extras["valid"]
        of_ended = (self.running_episodes * ended).sum(1, dtype=torch.float64)
        self.sums += torch.stack((reward.sum(dtype=torch.float64), ended.sum(), *of_ended, extras["bad"].sum()))
        self.running_episodes.masked_fill_(dones, 0.0)
        self._forward("process_env_step", rewards, dones, extras, intrinsic_rewards)

    def log(
        self, *, it: int, collect_time: float, learn_time: float, loss_dict: dict[str, float], **facts: Any
    ) -> None:
        """End an iteration."""
        self.collect_s, self.learn_s, self.losses = collect_time, learn_time, loss_dict
        self._first = it if self._first is None else self._first
        whole_run = {"start_it": self._first, "total_it": self.iterations}
        times = {"collect_time": collect_time, "learn_time": learn_time}
        self._forward("log", it=it, loss_dict=loss_dict, **(facts | times | whole_run))

    def save_model(self, path: str, iteration: int) -> None:
        """Report a saved file to the logger."""
        self._forward("save_model", path, iteration)

    def pop_sums(self) -> Tensor:
        """The sums since the last call, float64 `[5]`, as in `Rollout.sums`."""
        sums = self.sums.clone()
        self.sums.zero_()
        return sums

    def _forward(self, method: str, *arguments: Any, **named: Any) -> None:
        """Call a method of the logger."""
        if self.logger is not None:
            self._try(lambda: getattr(self.logger, method)(*arguments, **named))

    def _try(self, action: Callable[[], object]) -> None:
        """Call a function of the logger, which is dropped if that fails."""
        try:
            action()
        except Exception as error:  # of any library, or of its network
            traceback.print_exc()
            self._drop_logger(f"failed: {type(error).__name__}: {error}")

    def _finish(self) -> None:
        self._forward("stop_logging_writer")
        if close := getattr(getattr(self.logger, "writer", None), "close", None):
            self._try(close)  # rsl_rl leaves TensorBoard's open, which may lose its last numbers

    def _drop_logger(self, why: str) -> None:
        self.logger = None
        self.warnings.append(f"rsl_rl's logger {why}: the run goes on without it")
        print(f"Warning: {self.warnings[-1]}", flush=True)  # for the log, since no row may follow
