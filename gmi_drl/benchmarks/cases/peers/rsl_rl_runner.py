"""The process in which rsl_rl's own runner trains our Ant for a case.

`python -m gmi_drl.benchmarks.cases.peers.rsl_rl_runner '{"seed": 1, ...}'` prints a line of JSON per iteration with the
keys of a GMI's row, so that both sides are evaluated by the same code.
"""

import json
import os
import sys
import time
from collections.abc import Callable
from contextlib import closing, redirect_stdout
from typing import Any

import torch

from gmi_drl.config.learners import PPOConfig
from gmi_drl.config.learners.rsl_rl import runner_config
from gmi_drl.roles.main import die_with
from gmi_drl.roles.rsl_rl.metrics import IterationMetrics
from gmi_drl.run.metrics import Row
from gmi_drl.tasks import make
from gmi_drl.tasks.rsl_rl_env import RslRlEnv


class Reporter(IterationMetrics):
    """Passes each iteration to `report` as a row."""

    def __init__(self, env: RslRlEnv, horizon: int, report: Callable[[Row], None]) -> None:
        super().__init__(env)
        self.steps, self.report = horizon * env.num_envs, report

    def log(self, *, it: int, **facts: Any) -> None:
        """Report an iteration."""
        super().log(it=it, **facts)
        reward_sum, episodes, return_sum, length_sum, bad_environments = self.pop_sums().tolist()
        self.report(
            {
                "iteration": it + 1,
                "clock_s": time.monotonic(),
                "env_steps": (it + 1) * self.steps,
                "sim_s": self.env.sim_s,
                "act_s": self.collect_s - self.env.sim_s,
                "learn_s": self.learn_s,
                "sync_s": 0.0,
                "reward_mean": reward_sum / self.steps,
                "episodes": episodes,
                "return_sum": return_sum,
                "length_sum": length_sum,
                "bad_environments": bad_environments,
            }
        )
        self.env.sim_s = 0.0


def train(seed: int, num_env: int, iterations: int, threads: int, report: Callable[[Row], None]) -> None:
    """Train Ant with rsl_rl, with staggered first episodes. `report` is called with a row per iteration."""
    from rsl_rl.runners import OnPolicyRunner

    torch.manual_seed(seed)
    with closing(make("ant", num_env=num_env, seed=seed, threads=threads)) as task:
        ppo = PPOConfig.for_task(task.spec)
        env = RslRlEnv(task, ppo.reward_scale)
        runner = OnPolicyRunner(env, runner_config(ppo), log_dir=None, device="cpu")
        runner.logger = Reporter(env, ppo.horizon, report)
        runner.learn(iterations, init_at_random_ep_len=True)


def main() -> None:
    """Train by the order in `argv[1]`, on its CPUs with a thread each."""
    order = json.loads(sys.argv[1])
    die_with(order["parent"])
    os.sched_setaffinity(0, order["cpus"])
    threads, rows = len(order["cpus"]), sys.stdout
    torch.set_num_threads(threads)

    def report(row: Row) -> None:
        print(json.dumps(row), file=rows, flush=True)

    with redirect_stdout(sys.stderr):  # the library prints to stdout, too
        train(order["seed"], order["num_env"], order["iterations"], threads, report)


if __name__ == "__main__":
    main()
