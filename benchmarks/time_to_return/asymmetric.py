"""Does it help that the critic sees what the actor does not? Anymal with noise in what the actor sees.

    python benchmarks/time_to_return/asymmetric.py learn [--seeds 3]    # continues where it was stopped
    python benchmarks/time_to_return/asymmetric.py tell

The noise is that of Isaac Lab's Anymal, times `NOISE`. With `asymmetric` the critic sees the true state, too, with
`symmetric` it sees what the actor sees; `rsl_rl` is that library's runner with the groups of `asymmetric`, the same
networks and the same settings. Each run is one process with one thread. A run is judged by the mean return of the
episodes that end in the last tenth of its steps.
"""

import argparse
import json
import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import redirect_stdout
from dataclasses import replace
from itertools import product
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

from resumable import read, run_all
from two_means import chance, interval, ratio_of_means

if TYPE_CHECKING:
    from torch import Tensor

FILE = Path(__file__).parents[1] / "results" / "asymmetric" / "anymal.jsonl"
TASK, NUM_ENV, STEPS = "anymal", 512, 1_600_000
THEIRS = "rsl_rl"
SIDES = ("asymmetric", "symmetric", THEIRS)
GROUPS = {"actor": ["policy"], "critic": ["policy", "state"]}
FIRST_SEED = 101
LATE = 0.1
NOISE = 3.0
SPREAD = (*[0.2] * 3, *[0.05] * 3, *[0.05] * 3, *[0.0] * 3, *[0.01] * 12, *[0.075] * 12, *[0.0] * 12)
"""Largest noise of each number of an observation: Isaac Lab's, in the scales of `tasks/anymal.py`."""

Row = tuple[float, float]
"""The number of episodes that ended within an iteration, and the sum of their returns."""


def main() -> None:
    """Run one of the commands."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    learning = commands.add_parser("learn")
    learning.add_argument("--seeds", type=int, default=3)
    learning.add_argument("--sides", nargs="+", choices=SIDES, default=list(SIDES))
    commands.add_parser("tell")
    one = commands.add_parser("one", help="a single training, as `learn` starts it")
    one.add_argument("side", choices=SIDES)
    one.add_argument("seed", type=int)
    given = parser.parse_args()
    if given.command == "learn":
        known = {(run["side"], run["seed"]) for run in read(FILE)}
        wanted = product(range(FIRST_SEED, FIRST_SEED + given.seeds), given.sides)
        missing = [(side, str(seed)) for seed, side in wanted if (side, seed) not in known]
        run_all(__file__, missing, FILE, None, lambda run: f"{run['side']}, seed {run['seed']}: {run['late']:.2f}")
    elif given.command == "tell":
        tell()
    else:
        with redirect_stdout(sys.stderr):  # rsl_rl prints, too
            told = train(given.side, given.seed)
        print(json.dumps(told))


def tell() -> None:
    """Print the mean of each side, its seeds, and the ratio to rsl_rl with its 95 % interval and p."""
    late = {side: [run["late"] for run in read(FILE) if run["side"] == side] for side in SIDES}
    for side, values in late.items():
        if values:
            ratio = ratio_text(values, late[THEIRS]) if side != THEIRS else ""
            print(f"{side:11} mean {fmean(values):6.2f} of {' '.join(f'{value:.2f}' for value in values)}{ratio}")


def ratio_text(ours: Sequence[float], theirs: Sequence[float]) -> str:
    """The ratio of means with its interval, and p of a permutation test; empty for fewer than two seeds a side."""
    if min(len(ours), len(theirs)) < 2:
        return ""
    low, high = interval(ours, theirs)
    return f"; ratio {ratio_of_means(ours, theirs):.2f} ({low:.2f} to {high:.2f}), p {chance(ours, theirs):.2f}"


def train(side: str, seed: int) -> dict[str, Any]:
    """Run one training. Returns the mean return of its late episodes, and the curve."""
    import torch

    from gmi_drl.config.run_config import default_config
    from gmi_drl.workload import TASK_SPECS

    torch.set_num_threads(1)
    torch.manual_seed(seed)
    config = default_config(TASK_SPECS[TASK]).model_copy(update={"seed": seed})
    iterations = math.ceil(STEPS / (NUM_ENV * config.learner.horizon))
    rows = list((by_rsl_rl if side == "rsl_rl" else by_ours)(side, config, iterations))
    late = rows[-max(1, round(LATE * iterations)) :]
    return {
        "side": side,
        "seed": seed,
        "late": sum(total for _, total in late) / max(1, sum(episodes for episodes, _ in late)),
        "returns": [round(total / episodes, 3) if episodes else None for episodes, total in rows],
    }


class Noisy:
    """A task whose policy sees its observation with noise, and whose critic also sees the true one (`state`)."""

    def __init__(self, seed: int) -> None:
        import torch

        from gmi_drl.tasks import make
        from gmi_drl.workload.spaces import Observation, Part

        self._task = make(TASK, num_env=NUM_ENV, seed=seed, threads=1)
        self.num_env, self.device, self.counts_by_itself = NUM_ENV, self._task.device, self._task.counts_by_itself
        self._noise, self._spread = torch.Generator().manual_seed(seed), NOISE * torch.tensor(SPREAD)
        size = self._task.spec.observation.shape
        parts = Part("policy", size), Part("state", size, critic_alone=True)
        self.spec = replace(self._task.spec, observation=Observation(parts))
        self.obs = self._seen(self._task.obs)

    @property
    def episode_length(self) -> "Tensor":
        """See `Task`."""
        return self._task.episode_length

    def reset(self) -> "Tensor":
        """See `Task.reset`."""
        self.obs = self._seen(self._task.reset())
        return self.obs

    def step(self, action: "Tensor") -> tuple["Tensor", "Tensor", "Tensor", "Tensor", dict[str, "Tensor"]]:
        """See `Task.step`."""
        obs, reward, terminated, truncated, info = self._task.step(action)
        before, self.obs = self.obs, self._seen(obs)
        final_obs = self._seen(info["final_obs"]).where((terminated | truncated)[:, None], self.obs)
        final_obs = before.where(info["bad"][:, None], final_obs)
        return self.obs, reward, terminated, truncated, {**info, "final_obs": final_obs}

    def state_dict(self) -> dict[str, "Tensor"]:
        """Empty: no run of these is resumed."""
        return {}

    def load_state_dict(self, state: Mapping[str, "Tensor"]) -> None:
        """Begin new episodes."""
        self.reset()

    def close(self) -> None:
        """See `Task.close`."""
        self._task.close()

    def _seen(self, true: "Tensor") -> "Tensor":
        """Both parts `[N, 2 O]` of true observations `[N, O]`."""
        import torch

        noise = torch.rand(true.shape, generator=self._noise).mul_(2).sub_(1).mul_(self._spread)
        return torch.cat((true + noise, true), -1)


def by_ours(side: str, config: Any, iterations: int) -> Iterator[Row]:
    """Train as a single GMI does (`roles.training.holistic`), without its process, files and messages."""
    import torch

    from gmi_drl.comm.reductions.single import NoReduction
    from gmi_drl.roles.seeds import seed_of
    from gmi_drl.roles.training.iteration_stats import Decision
    from gmi_drl.roles.training.ppo_replica import PPOReplica

    if side == "symmetric":
        learner = config.learner.model_copy(update={"obs_groups": {"critic": ("policy",)}})
        config = config.model_copy(update={"learner": learner})
    device, task = torch.device("cpu"), Noisy(seed_of(config, 0, 0, "task"))
    seed = seed_of(config, 0, 0, "learner")
    replica = PPOReplica(task.spec, config, NoReduction(), sample_share=1.0, device=device, seed=seed)
    replica.attach_task(task, seed_of(config, 0, 0, "agent"))
    for _ in range(iterations):
        stats = replica.iterate(lambda: Decision.GO_ON)
        yield stats.episodes, stats.return_sum


def by_rsl_rl(side: str, config: Any, iterations: int) -> Iterator[Row]:
    """Train with the library's own runner, with the same groups."""
    from rsl_rl.runners import OnPolicyRunner

    from gmi_drl.config.learners.rsl_rl import runner_config
    from gmi_drl.roles.rsl_rl.metrics import IterationMetrics
    from gmi_drl.tasks.rsl_rl_env import RslRlEnv

    rows: list[Row] = []

    class Counting(IterationMetrics):
        def log(self, *, it: int, **facts: Any) -> None:
            super().log(it=it, **facts)
            _, episodes, return_sum, *_ = self.pop_sums().tolist()
            rows.append((episodes, return_sum))

    env = RslRlEnv(Noisy(config.seed), config.learner.reward_scale)
    runner = OnPolicyRunner(env, runner_config(config.learner) | {"obs_groups": GROUPS}, log_dir=None, device="cpu")
    runner.logger = Counting(env)
    runner.learn(iterations, init_at_random_ep_len=True)
    yield from rows


if __name__ == "__main__":
    main()
