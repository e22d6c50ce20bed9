"""rsl_rl's own runner on our Ant: `python -m gmi_drl.bench.rsl_rl_env '{"seed": 1, ...}'`, started by a case.

A line of JSON per iteration on stdout, with the keys of a GMI's row, so that both sides go through the same arithmetic.
"""

import json
import os
import sys
import time
from collections.abc import Callable
from contextlib import redirect_stdout
from typing import Any

import torch
from tensordict import TensorDict
from torch import Tensor

from gmi_drl.config import PPOConfig, default_config
from gmi_drl.roles.child import die_with
from gmi_drl.run.metrics import Row
from gmi_drl.tasks import Task, make
from gmi_drl.workload import TaskSpec


class TaskEnv:
    """A task as a `VecEnv` of rsl-rl-lib 5.5, with rewards times `reward_scale`.

    Attributes:
        episode_length_buf: Steps in the current episode `[N]`; the runner assigns it to stagger the first episodes.
        sim_s: Seconds spent in `step` so far.
    """

    def __init__(self, task: Task, reward_scale: float) -> None:
        self.task, self.reward_scale = task, reward_scale
        self.num_envs, self.num_actions = task.num_env, task.spec.num_actions
        self.max_episode_length = task.spec.episode_steps
        self.device = task.device
        self.cfg: dict[str, Any] = {}
        self.sim_s = 0.0

    @property
    def episode_length_buf(self) -> Tensor:
        """Of the task itself."""
        return self.task.episode_length

    @episode_length_buf.setter
    def episode_length_buf(self, steps: Tensor) -> None:
        self.task.episode_length.copy_(steps)

    def get_observations(self) -> TensorDict:
        """The current observations, `policy [N, O]`."""
        return TensorDict({"policy": self.task.obs}, batch_size=[self.num_envs])

    def step(self, actions: Tensor) -> tuple[TensorDict, Tensor, Tensor, dict[str, Tensor]]:
        """Observations, scaled rewards `[N]`, ends `[N]`, and `time_outs` and `bad` `[N]`, which are ends too."""
        start = time.perf_counter()
        _, reward, terminated, truncated, info = self.task.step(actions)
        extras = {"time_outs": truncated & ~info["bad"], "bad": info["bad"]}
        step = self.get_observations(), reward * self.reward_scale, terminated | truncated, extras
        self.sim_s += time.perf_counter() - start
        return step


class Reporter:
    """Stands in for the runner's logger: keeps episodes as it does, and reports an iteration as a row.

    Returns are those of the task, not scaled. Worlds that went wrong end without counting as an episode, as with us.
    """

    writer = None  # the runner saves nothing

    def __init__(self, env: TaskEnv, horizon: int, report: Callable[[Row], None]) -> None:
        self.env, self.steps, self.report = env, horizon * env.num_envs, report
        self.episode = torch.zeros(2, env.num_envs)  # returns and lengths so far
        self._start()

    def init_logging_writer(self) -> None:
        """Nothing to open."""

    def process_env_step(self, rewards: Tensor, dones: Tensor, extras: dict[str, Tensor], *_: Any) -> None:
        """Add a step."""
        reward = rewards / self.env.reward_scale
        self.reward_sum += reward.sum(dtype=torch.float64)
        self.episode += torch.stack((reward, torch.ones_like(reward)))
        ended = dones & ~extras["bad"]
        sums = self.episode[:, ended].sum(1, dtype=torch.float64)
        self.episodes += torch.stack((ended.sum(), *sums, extras["bad"].sum()))
        self.episode.masked_fill_(dones, 0.0)

    def log(self, *, it: int, collect_time: float, learn_time: float, **_: Any) -> None:
        """Report an iteration."""
        episodes, return_sum, length_sum, bad_worlds = self.episodes.tolist()
        self.report(
            {
                "iteration": it + 1,
                "env_steps": (it + 1) * self.steps,
                "sim_s": self.env.sim_s,
                "act_s": collect_time - self.env.sim_s,
                "learn_s": learn_time,
                "sync_s": 0.0,
                "reward_mean": self.reward_sum.item() / self.steps,
                "episodes": episodes,
                "return_sum": return_sum,
                "length_sum": length_sum,
                "bad_worlds": bad_worlds,
            }
        )
        self._start()

    def _start(self) -> None:
        self.env.sim_s = 0.0
        self.reward_sum = torch.zeros((), dtype=torch.float64)
        self.episodes = torch.zeros(4, dtype=torch.float64)


def ppo_arguments(config: PPOConfig) -> dict[str, Any]:
    """Our hyper-parameters as arguments of rsl_rl's PPO."""
    return {
        "num_learning_epochs": config.epochs,
        "num_mini_batches": config.minibatches,
        "clip_param": config.clip,
        "gamma": config.gamma,
        "lam": config.lam,
        "value_loss_coef": config.value_loss_coef,
        "use_clipped_value_loss": config.clip_value_loss,
        "entropy_coef": config.entropy_coef,
        "learning_rate": config.learning_rate,
        "max_grad_norm": config.max_grad_norm,
        "schedule": config.schedule,
        "desired_kl": config.desired_kl,
    }


def runner_config(spec: TaskSpec, config: PPOConfig) -> dict[str, Any]:
    """Our networks, normalisation and hyper-parameters as the configuration of rsl_rl's `OnPolicyRunner`."""
    network = {
        "class_name": "MLPModel",
        "hidden_dims": list(spec.hidden),
        "activation": "elu",
        "obs_normalization": True,
    }
    gaussian = {"class_name": "GaussianDistribution", "init_std": config.init_std, "std_type": "log"}
    return {
        "num_steps_per_env": config.horizon,
        "obs_groups": {"actor": ["policy"], "critic": ["policy"]},
        "actor": {**network, "distribution_cfg": gaussian},
        "critic": dict(network),
        "algorithm": {"class_name": "PPO", **ppo_arguments(config)},
    }


def train(seed: int, num_env: int, iterations: int, threads: int, report: Callable[[Row], None]) -> None:
    """Train Ant with rsl_rl, its first episodes staggered; `report` hears of every iteration."""
    from rsl_rl.runners import OnPolicyRunner

    torch.manual_seed(seed)
    task = make("ant", num_env=num_env, seed=seed, threads=threads)
    ppo = default_config(task.spec).ppo
    env = TaskEnv(task, ppo.reward_scale)
    runner = OnPolicyRunner(env, runner_config(task.spec, ppo), log_dir=None, device="cpu")
    runner.logger = Reporter(env, ppo.horizon, report)
    runner.learn(iterations, init_at_random_ep_len=True)
    task.close()


def main() -> None:
    """Train as ordered, on the ordered CPUs with a thread each."""
    order = json.loads(sys.argv[1])
    die_with(order["parent"])
    os.sched_setaffinity(0, order["cpus"])
    threads, rows = len(order["cpus"]), sys.stdout
    torch.set_num_threads(threads)

    def report(row: Row) -> None:
        print(json.dumps(row), file=rows, flush=True)

    with redirect_stdout(sys.stderr):  # the library prints too
        train(order["seed"], order["num_env"], order["iterations"], threads, report)


if __name__ == "__main__":
    main()
