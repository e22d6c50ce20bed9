"""mjlab: trials of every task of its registry with its own configuration, compared with its own training."""

import json
from pathlib import Path

import torch

from gmi_drl.errors import UsageError
from tools.interop.runs import NUM_ENV, RunFailedError, Trial, last_words, run, start, train

ITERATIONS, COMPARED = 2, 5
"""Iterations of the run on two GMIs, and of those on one GMI and by mjlab, whose weights are compared."""

USAGE = UsageError.exit_code
SEEN_BY = "tools.interop.ask_mjlab"
NETWORKS = ("actor_state_dict", "critic_state_dict")
ONE, TWO, OWN, WITHOUT = "1 GMI", "2 GMIs", "beside mjlab's own `train`", "without its motion"

Row = dict[str, str]


def tasks(python: Path, folder: Path) -> dict[str, bool]:
    """Find all tasks and whether each follows a motion. Writes `agents/TASK.yaml` and `motion.npz` in the folder.

    Raises:
        RunFailedError: if mjlab fails.
    """
    asked = run(python, ["-m", SEEN_BY, str(folder)], folder)
    if asked.returncode != 0:
        raise RunFailedError(f"mjlab cannot be asked: {last_words(asked.stderr)}")
    told: dict[str, bool] = json.loads(asked.stdout.splitlines()[-1])
    return told


def row(python: Path, task: str, *, follows: bool, folder: Path) -> Row:
    """Try a task and return its row; `folder` is that of `tasks`."""
    motion = folder / "motion.npz"
    agent = ("--algo", "rsl_rl", "--rsl-rl-config", str(folder / "agents" / f"{task}.yaml"))
    name = f"mjlab:{task}:{motion}" if follows else f"mjlab:{task}"
    here = folder / task
    here.mkdir()
    told = {}
    try:
        ours = train(python, Trial(name, agent, COMPARED), 1, here / "one").path / f"model_{COMPARED}.pt"
        told[ONE] = f"trains, {COMPARED} iterations"
        try:
            theirs = own_training(python, task, here, motion if follows else None)
            told[OWN] = compare(ours, theirs)
        except RunFailedError as failure:
            told[OWN] = f"mjlab's own fails: {failure}"
    except RunFailedError as failure:
        told[ONE] = f"fails: {failure}"
    try:
        train(python, Trial(name, agent, ITERATIONS), 2, here / "two")
        told[TWO] = f"trains, {ITERATIONS} iterations, replicas alike"
    except RunFailedError as failure:
        told[TWO] = f"fails: {failure}"
    if follows:
        told[WITHOUT] = refusal(python, Trial(f"mjlab:{task}", agent), here)
    return {column: told[column] for column in (ONE, TWO, OWN, WITHOUT) if column in told}


def refusal(python: Path, trial: Trial, folder: Path) -> str:
    """The message with which a wrong trial is refused; its exit code must be 2."""
    ended = start(python, trial, 1, folder / "refused")
    said = f"exit code {ended.returncode}: {last_words(ended.stderr)}"
    return said if ended.returncode == USAGE and "Traceback" not in ended.stderr else f"fails: {said}"


def own_training(python: Path, task: str, folder: Path, motion: Path | None) -> Path:
    """Train with mjlab's own `train` and its defaults, except sizes and logger. Returns the last model.

    Raises:
        RunFailedError: if it fails.
    """
    options = {
        "--env.scene.num-envs": NUM_ENV,
        "--agent.max-iterations": COMPARED,
        "--agent.logger": "tensorboard",
        "--gpu-ids": None,
        "--log-root": folder / "own",
        **({"--env.commands.motion.motion-file": motion} if motion else {}),
    }
    arguments = [str(part) for option in options.items() for part in option]
    ended = run(python, ["-m", "mjlab.scripts.train", task, *arguments], folder)
    if ended.returncode != 0:
        raise RunFailedError(f"exit code {ended.returncode}: {last_words(ended.stderr)}")
    for model in (folder / "own").rglob(f"model_{COMPARED - 1}.pt"):  # rsl_rl counts from 0
        return model
    raise RunFailedError(f"left no model of iteration {COMPARED}")


def compare(ours: Path, theirs: Path) -> str:
    """Whether two models have the same weights and statistics."""
    one, other = (_weights(path) for path in (ours, theirs))
    if one.keys() != other.keys():
        return f"networks differ: {', '.join(sorted(one.keys() ^ other.keys()))}"
    apart = {name: (one[name].double() - other[name].double()).abs().max().item() for name in one}
    if all(torch.equal(one[name], other[name]) for name in one):
        return f"same weights after {COMPARED} iterations, bit for bit"
    return f"weights differ by up to {max(apart.values()):.2g} after {COMPARED} iterations"


def _weights(path: Path) -> dict[str, torch.Tensor]:
    saved = torch.load(path, map_location="cpu", weights_only=True)
    return {f"{part}.{name}": tensor for part in NETWORKS for name, tensor in saved[part].items()}
