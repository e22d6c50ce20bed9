"""A training by another checkout of this repository, in a process of its own."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
LIMIT_S = 3600.0
_MAIN = "from gmi_drl.cli import main; main()"


def commit(checkout: Path) -> str:
    """Short, and `-dirty` where the package differs from it."""
    git = ["git", "-C", str(checkout)]
    changed = subprocess.run([*git, "status", "--porcelain", "gmi_drl"], capture_output=True, text=True, check=True)
    named = subprocess.run([*git, "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=True)
    return named.stdout.strip() + ("-dirty" if changed.stdout else "")


def command(checkout: Path, *arguments: str) -> dict[str, Any]:
    """A command of a checkout, whatever folder it is run in: what `subprocess.run` takes."""
    line = [sys.executable, "-P", "-c", _MAIN, *arguments]  # -P: else the working directory goes before PYTHONPATH
    return {"args": line, "env": os.environ | {"PYTHONPATH": str(checkout)}}


def train(checkout: Path, options: Mapping[str, object], folder: Path, cores: Sequence[int] | None = None) -> None:
    """Run `gmi-drl train` of a checkout to its end, with a claim of its own on the cores.

    Args:
        checkout: Its root.
        options: Of the command, by name: `{"--task": "ant"}`.
        folder: Of the run.
        cores: CPUs that it may use; None for all.

    Raises:
        RuntimeError: if it fails; the message is its last words.
    """
    given = [str(part) for option in {**options, "--run-dir": folder}.items() for part in option]
    pinned = ["taskset", "-c", ",".join(map(str, cores))] if cores else []
    asked = command(checkout, "train", *given)
    ended = subprocess.run(
        [*pinned, *asked["args"]],
        cwd=folder.parent,
        env=asked["env"] | {"GMI_DRL_CLAIMS": str(folder.parent / f"{folder.name}.claims")},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    if ended.returncode != 0:
        raise RuntimeError(f"{checkout}: {' '.join(given)}: {ended.stderr.strip()[-2000:]}")


def learner_digest(folder: Path) -> str:
    """Of what all replicas hold alike at the end of a run."""
    index = max((folder / "checkpoints").glob("*/checkpoint.json"))
    digest: str = json.loads(index.read_text())["learner"]
    return digest
