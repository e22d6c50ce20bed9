"""What all peers train with, and how they tell how fast: one JSON line per update.

PPO on gymnasium's Ant-v5: 2048 samples an update, 4 epochs of mini-batches of 512, two networks of 256-128-64 with ELU.
"""

import argparse
import importlib.util
import json
import os
import sys
import time
from pathlib import Path

CORES = len(os.sched_getaffinity(0))
"""What this process may use: the environments are spread over all of them where the peer can do that."""

SAMPLES = 2048
MINI_BATCH = 512
EPOCHS = 4
HIDDEN = (256, 128, 64)
LEARNING_RATE = 3e-4
GAMMA = 0.99
LAMBDA = 0.95
CLIP = 0.2
VALUE_COEF = 0.5
MAX_GRAD_NORM = 0.5


def make_parser(description: str | None) -> argparse.ArgumentParser:
    """The command line of every driver."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--num-env", type=int, required=True, help="environments in all; divides 2048")
    parser.add_argument("--seconds", type=float, required=True, help="of training, after which the driver ends")
    parser.add_argument("--threads", type=int, required=True, help="of torch, where the learner runs")
    parser.add_argument("--seed", type=int, default=1)
    return parser


def read_arguments(description: str | None) -> argparse.Namespace:
    """The command line of those drivers that train with the settings above."""
    parser = make_parser(description)
    parser.add_argument("--env-id", default="Ant-v5", help="of gymnasium")
    parser.add_argument("--runners", type=int, help="processes with environments, where the peer has them")
    parser.add_argument("--samples", type=int, help="of an update, where the peer has runners")
    arguments = parser.parse_args()
    if arguments.runners:
        if arguments.num_env % arguments.runners:
            parser.error(f"--num-env must be a multiple of {arguments.runners} runners, but is {arguments.num_env}")
    elif SAMPLES % arguments.num_env or arguments.num_env % CORES:
        parser.error(f"--num-env must divide {SAMPLES} and be a multiple of {CORES} cores, but is {arguments.num_env}")
    return arguments


def register_sleeping() -> None:
    """Tell gymnasium of the environments that sleep, whose file imports nothing of gmi-drl."""
    file = Path(__file__).parents[2] / "gmi_drl" / "benchmarks" / "cases" / "common" / "sleeping.py"
    spec = importlib.util.spec_from_file_location("sleeping", file)
    assert spec and spec.loader
    module = sys.modules["sleeping"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)


class Updates:
    """Prints a line per update; time and CPU time count from its making.

    Args:
        seconds: For training.
        of_cpu: Whether these are CPU seconds.

    Attributes:
        weights: How many the networks have, if the driver tells.
        replay_bytes: Memory of its replay, if the driver tells.
    """

    def __init__(self, seconds: float, of_cpu: bool = False) -> None:
        self.seconds, self.of_cpu = seconds, of_cpu
        self.weights: int | None = None
        self.replay_bytes: int | None = None
        self.started, self.started_cpu = time.monotonic(), time.process_time()

    @property
    def is_over(self) -> bool:
        """Whether the time for training has passed."""
        passed = time.process_time() - self.started_cpu if self.of_cpu else time.monotonic() - self.started
        return passed >= self.seconds

    def report(self, env_steps: int, return_mean: float | None, episodes: int | None = None) -> None:
        """An update has ended.

        Args:
            env_steps: Environment steps so far.
            return_mean: Of recent episodes, if any have ended.
            episodes: How many these are, where the library tells.
        """
        wall_s = time.monotonic() - self.started
        row = {"env_steps": env_steps, "wall_s": wall_s, "return_mean": return_mean, "episodes": episodes}
        cpu_s = time.process_time() - self.started_cpu
        told = {"weights": self.weights, "replay_bytes": self.replay_bytes}
        print(json.dumps(row | {"cores_s": busy_s(), "cpu_s": cpu_s} | told), flush=True)


def read_settings(description: str | None) -> argparse.Namespace:
    """The command line of drivers that train by `--settings`: the fields of `trainings.Settings`, as JSON."""
    parser = make_parser(description)
    parser.add_argument("--settings", type=json.loads, required=True, help="as JSON")
    return parser.parse_args()


def updates_of(arguments: argparse.Namespace) -> Updates:
    """For as many CPU seconds as the settings say; without them for `--seconds` of the clock."""
    cpu_s = arguments.settings.get("cpu_s")
    return Updates(cpu_s or arguments.seconds, of_cpu=cpu_s is not None)


def busy_s() -> float:
    """Seconds for which the cores that this process may use were busy, since the machine's start."""
    names = {f"cpu{core}" for core in os.sched_getaffinity(0)}
    times = [line.split() for line in Path("/proc/stat").read_text().splitlines()]
    ticks = sum(sum(map(int, [*of[1:4], *of[6:9]])) for of in times if of[0] in names)
    return ticks / os.sysconf("SC_CLK_TCK")


def mean(values: list[float]) -> float | None:
    """None of nothing."""
    return float(sum(values) / len(values)) if values else None
