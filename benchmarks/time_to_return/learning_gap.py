"""Does our PPO learn as much from a step as rsl_rl's? Many seeds of both, one process and one thread each.

    python benchmarks/time_to_return/learning_gap.py learn ant --seeds 50        # hours; continues where it was stopped
    python benchmarks/time_to_return/learning_gap.py learn ant --sides gmi-drl torch_weights
    python benchmarks/time_to_return/learning_gap.py tell                        # the table of all that was measured

Each training is a million steps from nothing with 512 environments; it is judged by the mean return of episodes that
end in the last tenth. It does not depend on the machine, so trainings may run beside other work. Seeds were fixed
before the first run, none to choose hyper-parameters. The seeds of two sides are not paired: a seed gives other
environments, weights and noise in each program.
"""

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import redirect_stdout
from itertools import product
from pathlib import Path
from typing import Any

from two_means import chance, interval, ratio_of_means, relative_error

from gmi_drl.layout.environment import KEEP_FREED_MEMORY

RESULTS = Path(__file__).parents[1] / "results" / "learning_gap"
TASKS = ("ant", "anymal", "humanoid")
STEPS, NUM_ENV = 1_000_000, 512
FIRST_SEED = 101
LATE = 0.1
"""The last part of the steps, whose episodes count."""
OURS, THEIRS, BF16 = "gmi-drl", "rsl_rl", "bf16"
SIDES = {
    OURS: "ours, one GMI",
    THEIRS: "the runner of rsl-rl-lib",
    "torch_weights": "ours with PyTorch's first weights, as rsl_rl has",
    "last_value": "ours with the value one step before at a time-out, as rsl_rl has",
    BF16: "ours with all layers but the last multiplied in bfloat16",
    "halves": "ours with mini-batches of which each half of the worlds gives a half, as two GMIs have",
}


def main() -> None:
    """Run one of the commands."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    learning = commands.add_parser("learn")
    learning.add_argument("task", nargs="+", choices=TASKS)
    learning.add_argument("--seeds", type=int, default=50)
    learning.add_argument("--sides", nargs="+", choices=list(SIDES), default=[OURS, THEIRS])
    commands.add_parser("tell")
    one = commands.add_parser("one", help="a single training, as `learn` starts it")
    one.add_argument("task", choices=TASKS)
    one.add_argument("side", choices=list(SIDES))
    one.add_argument("seed", type=int)
    given = parser.parse_args()
    if given.command == "learn":
        for task in given.task:
            learn(task, given.sides, given.seeds)
    elif given.command == "tell":
        tell()
    else:
        with redirect_stdout(sys.stderr):  # rsl_rl prints, too
            trained = train(given.task, given.side, given.seed)
        print(json.dumps(trained))


def learn(task: str, sides: Sequence[str], seeds: int) -> None:
    """Run all trainings of a task that are not in its file yet, one at a time on each core."""
    RESULTS.mkdir(exist_ok=True)
    known = {(run["side"], run["seed"]) for run in runs(task)}
    wanted = [(side, seed) for seed, side in product(range(FIRST_SEED, FIRST_SEED + seeds), sides)]
    cores = sorted(os.sched_getaffinity(0))
    free = list(cores)

    def run(side: str, seed: int) -> None:
        core = free.pop()
        command = ["taskset", "-c", str(core), sys.executable, __file__, "one", task, side, str(seed)]
        environment = os.environ | KEEP_FREED_MEMORY | {"OMP_NUM_THREADS": "1"}
        line = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=environment).stdout
        free.append(core)
        with runs_file(task).open("a") as file:
            file.write(line)
        print(f"{task} {side}, seed {seed}: {json.loads(line)['late_return']:.1f}", flush=True)

    with ThreadPoolExecutor(len(cores)) as pool:
        done = [pool.submit(run, *one) for one in wanted if one not in known]
    for future in done:
        future.result()


def train(task: str, side: str, seed: int) -> dict[str, Any]:
    """Run one training. Returns the mean return of the late episodes, and the curve."""
    import torch

    from gmi_drl.config.run_config import default_config
    from gmi_drl.workload import TASK_SPECS

    torch.set_num_threads(1)
    config = default_config(TASK_SPECS[task]).model_copy(update={"seed": seed})
    steps = NUM_ENV * config.learner.horizon
    iterations = math.ceil(STEPS / steps)
    rows = list((by_rsl_rl if side == THEIRS else by_ours)(task, side, config, iterations))
    late = rows[-round(LATE * iterations) :]
    return {
        "side": side,
        "seed": seed,
        "late_return": sum(total for _, total, *_ in late) / sum(episodes for episodes, *_ in late),
        "late_length": sum(length for _, _, length, _ in late) / sum(episodes for episodes, *_ in late),
        "returns": [round(total / episodes, 2) if episodes else None for episodes, total, *_ in rows],
    }


Row = tuple[float, float, float, float]
"""The number of episodes that ended within an iteration, the sums of their returns and lengths, and when it ended."""


def by_ours(task: str, side: str, config: Any, iterations: int) -> Iterator[Row]:
    """Train as a single GMI does (`roles.training.holistic`), without its process, files and messages."""
    import torch

    from gmi_drl.comm import open_group, open_reduction
    from gmi_drl.comm.membership import Membership
    from gmi_drl.comm.rendezvous import Rendezvous
    from gmi_drl.layout.reductions import NONE
    from gmi_drl.roles.seeds import seed_of
    from gmi_drl.roles.training.iteration_stats import Decision
    from gmi_drl.roles.training.ppo_replica import PPOReplica
    from gmi_drl.tasks import make
    from gmi_drl.workload import TASK_SPECS

    changed = {"last_value": {"bootstrap": "last_value"}, BF16: {"bf16": True}}.get(side, {})
    config = config.model_copy(update={"learner": config.learner.model_copy(update=changed)})
    device, task_seed = torch.device("cpu"), seed_of(config, 0, 0, "task")
    reduction = open_reduction(NONE, open_group(NONE, Membership(0, [[0]]), Rendezvous()), device)
    torch.manual_seed(task_seed)
    worlds = make(task, num_env=NUM_ENV, seed=task_seed, threads=1)
    replica = PPOReplica(
        TASK_SPECS[task],
        config,
        reduction,
        sample_share=1.0,
        device=device,
        seed=seed_of(config, 0, 0, "learner"),
        learner_class=learner_with_halves() if side == "halves" else learner_of_ours(),
    )
    if side == "torch_weights":
        torch.manual_seed(seed_of(config, 0, 0, "weights"))
        for module in replica.learner.agent.policy.modules():
            if isinstance(module, torch.nn.Linear):
                in_place(module)
    replica.attach_task(worlds, seed_of(config, 0, 0, "agent"))
    for _ in range(iterations):
        stats = replica.iterate(lambda: Decision.GO_ON)
        yield stats.episodes, stats.return_sum, stats.length_sum, time.perf_counter()


def in_place(linear: Any) -> None:
    """Set PyTorch's own initial weights in a layer, whose parameters stay views of the flat vector."""
    import torch

    fresh = torch.nn.Linear(linear.in_features, linear.out_features)
    with torch.no_grad():
        linear.weight.copy_(fresh.weight)
        linear.bias.copy_(fresh.bias)


def learner_of_ours() -> Any:
    """Make the learner of a training."""
    from gmi_drl.roles.training.learner import Learner

    return Learner


def learner_with_halves() -> Any:
    """The same with the mini-batches of two GMIs with half the environments each."""
    import torch

    from gmi_drl.roles.training.learner import Learner

    class Halves(Learner):
        def shuffled(self, rollout: Any) -> torch.Tensor:
            order = torch.randperm(rollout.transitions, generator=self.generator)
            is_first = order % NUM_ENV < NUM_ENV // 2  # transitions `[T, N]` are numbered step by step
            return torch.stack((order[is_first], order[~is_first]), 1).flatten()

    return Halves


def by_rsl_rl(task: str, side: str, config: Any, iterations: int) -> Iterator[Row]:
    """Train with the library's own runner, in the same environments and with the same hyper-parameters."""
    import torch
    from rsl_rl.runners import OnPolicyRunner

    from gmi_drl.config.learners.rsl_rl import runner_config
    from gmi_drl.roles.rsl_rl.metrics import IterationMetrics
    from gmi_drl.tasks import make
    from gmi_drl.tasks.rsl_rl_env import RslRlEnv

    rows: list[Row] = []

    class Counting(IterationMetrics):
        def log(self, *, it: int, **facts: Any) -> None:
            super().log(it=it, **facts)
            _, episodes, return_sum, length_sum, _ = self.pop_sums().tolist()
            rows.append((episodes, return_sum, length_sum, time.perf_counter()))

    torch.manual_seed(config.seed)
    env = RslRlEnv(make(task, num_env=NUM_ENV, seed=config.seed, threads=1), config.learner.reward_scale)
    runner = OnPolicyRunner(env, runner_config(config.learner), log_dir=None, device="cpu")
    runner.logger = Counting(env)
    runner.learn(iterations, init_at_random_ep_len=True)
    yield from rows


def tell() -> None:
    """Print each side compared with rsl_rl, and our variants compared with ours."""
    print("task      side           against   seeds      mean return (sd)           ratio  error  95 % interval   p")
    for task in TASKS:
        values = {side: [run["late_return"] for run in runs(task) if run["side"] == side] for side in SIDES}
        pairs = [(side, THEIRS) for side in SIDES if side != THEIRS]
        pairs += [(side, OURS) for side in SIDES if side not in (OURS, THEIRS)]
        for side, other in pairs:
            if len(values[side]) > 1 and len(values[other]) > 1:
                print(f"{task:9} {side:14} {other:8} {described(values[side], values[other])}")


def described(ours: Sequence[float], theirs: Sequence[float]) -> str:
    """A comparison as text: numbers of seeds, means, their ratio with standard error and interval, and the p-value."""
    ratio = ratio_of_means(ours, theirs)
    error = ratio * math.hypot(relative_error(ours), relative_error(theirs))
    low, high = interval(ours, theirs)
    both = " / ".join(f"{statistics.fmean(of):.5g} ({statistics.stdev(of):.3g})" for of in (ours, theirs))
    seeds = f"{len(ours)} / {len(theirs)}"
    return f"{seeds:9} {both:27} {ratio:.3f}  {error:.3f}  {low:.3f} to {high:.3f}  {chance(ours, theirs):.2f}"


def runs(task: str) -> list[dict[str, Any]]:
    """Read the trainings of a task."""
    file = runs_file(task)
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def runs_file(task: str) -> Path:
    """The file of a task's trainings, a line each."""
    return RESULTS / f"{task}.jsonl"


if __name__ == "__main__":
    main()
