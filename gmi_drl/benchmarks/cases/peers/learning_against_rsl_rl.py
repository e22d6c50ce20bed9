"""Learning curves of gmi-drl and rsl_rl's own runner with the same Ant, cores, environments and hyper-parameters."""

import json
import math
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from select import select
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from gmi_drl.benchmarks.case import Case, Sample, Sides
from gmi_drl.benchmarks.cases.common import requirements
from gmi_drl.benchmarks.cases.learning import late_returns, learning
from gmi_drl.benchmarks.cores import PURPOSE
from gmi_drl.errors import GmiError
from gmi_drl.layout.environment import KEEP_FREED_MEMORY
from gmi_drl.workload import TASK_SPECS

if TYPE_CHECKING:
    from gmi_drl.config.run_config import RunConfig
    from gmi_drl.layout.layout import Layout
    from gmi_drl.run.metrics import Row

GMIS, NUM_ENV = 2, 256  # environments of each GMI; rsl_rl has GMIS * NUM_ENV
STEPS, QUICK_STEPS = 1_000_000, 65_536
SEEDS = 10
FIRST_SEED = 1  # both sides take the next one each round
EPISODE_STEPS = GMIS * NUM_ENV * TASK_SPECS["ant"].episode_steps
SILENCE_S = 120.0  # limit of an iteration and of the start
LOG_LINES = 5
MODULE = "gmi_drl.benchmarks.cases.peers.rsl_rl_runner"


@contextmanager
def open_sides(quick: bool) -> Iterator[Sides]:
    """Both sides. Each sample is a training of the same number of steps."""
    from gmi_drl.config.run_config import default_config
    from gmi_drl.gmi.inventory import this_node
    from gmi_drl.scheduler.plan import plan

    node = this_node().model_copy(update={"gpus": None})
    layout = plan(TASK_SPECS["ant"], node, num_env=NUM_ENV, gmis_per_gpu=GMIS)
    config = default_config(TASK_SPECS["ant"])
    iterations = math.ceil((QUICK_STEPS if quick else STEPS) / (config.learner.horizon * layout.num_env))
    config = config.model_copy(update={"iterations": iterations})
    our_seeds, their_seeds = count(FIRST_SEED), count(FIRST_SEED)
    with TemporaryDirectory(prefix="gmi-drl-bench-") as path:
        folder = Path(path)
        yield {
            "gmi-drl": lambda: train_ours(layout, config, next(our_seeds), folder),
            "rsl_rl": lambda: train_reference(layout, next(their_seeds), folder, iterations),
        }


def train_ours(layout: "Layout", config: "RunConfig", seed: int, folder: Path) -> Sample:
    """One training by gmi-drl."""
    from gmi_drl.run.folder import RunFolder

    config = config.model_copy(update={"seed": seed})
    return late_returns.of_rows(seed, learning.train(layout, config, RunFolder(folder / str(seed), stays=False)))


def train_reference(layout: "Layout", seed: int, folder: Path, iterations: int) -> Sample:
    """One training by rsl_rl in a process of its own, on the cores of the layout's GMIs, evaluated like ours."""
    from gmi_drl.config.learners import PPOConfig
    from gmi_drl.gmi import allowed_cores, claimed
    from gmi_drl.launch.row_merger import RowMerger

    cpus = [allowed_cores()[core] for gmi in layout.gmis for core in gmi.cores]
    order = {"parent": os.getpid(), "cpus": cpus, "seed": seed, "num_env": layout.num_env, "iterations": iterations}
    merger, log = RowMerger(1, PPOConfig().horizon * layout.num_env), folder / f"rsl_rl-{seed}.log"
    with claimed([layout], PURPOSE):
        rows = [merged for row in reported(order, log) for merged in merger.add(0, row)]
    return late_returns.of_rows(seed, rows)


def reported(order: dict[str, object], log: Path) -> Iterator["Row"]:
    """The rows of a training by rsl_rl as they come. The process is ended when the iteration ends, for any reason.

    Raises:
        GmiError: if the process fails or prints nothing for `SILENCE_S`, with the end of its log.
    """
    with log.open("wb") as errors:
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", MODULE, json.dumps(order)],
            env=environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
            bufsize=0,  # so that `select` sees every line
            process_group=0,  # Ctrl-C in the terminal reaches only this process, which ends the other
        )
    with process:
        try:
            assert process.stdout is not None
            while select([process.stdout], [], [], SILENCE_S)[0]:
                line = process.stdout.readline()
                if not line:
                    break
                yield json.loads(line)
            else:
                raise GmiError(f"rsl_rl has printed nothing for {SILENCE_S:.0f} s{_end_of(log)}")
            if code := process.wait(SILENCE_S):
                raise GmiError(f"rsl_rl exited with code {code}{_end_of(log)}")
        finally:
            process.kill()


def environment() -> dict[str, str]:
    """The environment of rsl_rl's process: the allocator is set as in our GMIs, GOMP_SPINCOUNT is not."""
    return KEEP_FREED_MEMORY | {name: value for name, value in os.environ.items() if name != "GOMP_SPINCOUNT"}


def _end_of(log: Path) -> str:
    lines = log.read_text(errors="replace").splitlines()[-LOG_LINES:]
    return "".join(f"\n  | {line}" for line in lines)


CASE = Case(
    name="learning_against_rsl_rl",
    claim=f"{STEPS:,} steps of Ant from scratch, {SEEDS} seeds: the mean return of the episodes that ended in the last "
    "10 % of the steps, by gmi-drl (2 GMIs x 256 environments) and by the runner of rsl-rl-lib 5.5 (512 environments) "
    "on the same cores, with the same networks, normalisation and hyper-parameters.",
    unit="return",
    open=open_sides,
    obstacle=lambda: (
        requirements.package("mujoco", "mujoco") or requirements.package("rsl_rl", "rsl-rl") or requirements.cores(GMIS)
    ),
    limits=f"{SEEDS} seeds show a large difference in learning, not a small one. "
    "The hyper-parameters are gmi-drl's, tuned with gmi-drl, on a CPU. Each side begins with its own library's weights "
    "(ours are orthogonal with a small last layer of the policy, rsl_rl's are PyTorch's default) and bootstraps "
    "time-outs in its own way (ours by the last observation, rsl_rl by the value one step before). An episode that "
    f"lasts its whole time takes {EPISODE_STEPS:,} of the steps, so late episodes were begun by less trained policies. "
    "rsl_rl has one process with a thread per core and the defaults of OpenMP, which busy cores slow down most: "
    "seconds are comparable only on idle cores. Its allocator keeps freed memory, as ours does; users of rsl_rl do not "
    "set that. gmi-drl writes checkpoints and metrics meanwhile, rsl_rl writes nothing.",
    repeats=SEEDS,
)
