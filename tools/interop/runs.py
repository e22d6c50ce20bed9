"""Runs `gmi-drl train` in the Python of another library and checks the run."""

import os
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from gmi_drl.gmi.inventory import allowed_cores
from gmi_drl.run.checkpoint import list_checkpoints, read_index
from gmi_drl.run.folder import RunFolder
from gmi_drl.run.metrics import read_metrics

ROOT = Path(__file__).resolve().parents[2]
LIMIT_S = 3600.0
"""A first run compiles its kernels, and a busy core renders pictures slowly."""

NUM_ENV = 4
"""Environments of a GMI."""

COMMAND = ("-c", "from gmi_drl.cli import main; main()")


class RunFailedError(Exception):
    """A command has failed; the message is its last output."""


@dataclass(frozen=True)
class Trial:
    """A training to try.

    Args:
        task: As given to `--task`.
        options: Of `gmi-drl train`, in addition to those of all trials.
        iterations: Of the run.
    """

    task: str
    options: tuple[str, ...] = ()
    iterations: int = 2


def run(python: Path, arguments: Sequence[str], folder: Path) -> subprocess.CompletedProcess[str]:
    """Run another library's Python on the CPU, with this checkout of gmi-drl and one torch thread per core.

    A single GMI has as many threads: with another number some matrix products are rounded differently.

    Raises:
        RunFailedError: if it takes longer than `LIMIT_S`.
    """
    threads = str(len(allowed_cores()))
    ours = {"PYTHONPATH": str(ROOT), "CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": threads, "COLUMNS": "200"}
    try:
        return subprocess.run(
            [str(python), *arguments],
            cwd=folder,
            env=os.environ | ours,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=LIMIT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise RunFailedError(f"has not ended within {LIMIT_S:.0f} s") from None


def train(python: Path, trial: Trial, gmis: int, folder: Path) -> RunFolder:
    """Train on `gmis` GMIs of one core each.

    Raises:
        RunFailedError: if it fails, lacks an iteration or a GMI, or leaves no checkpoint of its end, for which
            replicas compare a digest of what must be equal on all of them.
    """
    ended = start(python, trial, gmis, folder)
    if ended.returncode != 0:
        raise RunFailedError(f"exit code {ended.returncode}: {last_words(ended.stderr)}")
    left = RunFolder(folder)
    rows, saved = read_metrics(left.metrics_file), list_checkpoints(left.checkpoints)
    if len(rows) != trial.iterations or len(rows[-1]["gmis"]) != gmis:
        raise RunFailedError(f"reported {len(rows)} iterations by {len(rows[-1]['gmis']) if rows else 0} GMIs")
    if not saved or read_index(saved[-1])["iteration"] != trial.iterations:
        raise RunFailedError("left no checkpoint of its last iteration")
    return left


def start(python: Path, trial: Trial, gmis: int, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run `gmi-drl train` until it ends, also if it fails."""
    fixed = ["--num-env", NUM_ENV, "--gmis-per-gpu", gmis, "--iterations", trial.iterations, "--run-dir", folder]
    options = ["train", "--task", trial.task, *trial.options, *map(str, fixed)]
    return run(python, [*COMMAND, *options], folder.parent)


def last_words(printed: str) -> str:
    """The last line that is not empty."""
    lines = [line.strip() for line in printed.splitlines() if line.strip()]
    return lines[-1] if lines else "it said nothing"
