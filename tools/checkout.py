"""Runs commands of another checkout of this repository, each in its own process."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
LIMIT_S = 3600.0
_MAIN = "from gmi_drl.cli import main; main()"
_ALL = """
import io, json, sys
from contextlib import redirect_stderr, redirect_stdout
from gmi_drl.cli import main
texts = []
for line in json.loads(sys.argv[1]):
    sys.argv, text = ["gmi-drl", *line], io.StringIO()
    with redirect_stdout(text), redirect_stderr(text):
        try:
            main()
            code = 0
        except SystemExit as ended:
            code = ended.code
    texts.append(f"{text.getvalue()}exit code {code or 0}")
print(json.dumps(texts))
"""


def commit(checkout: Path) -> str:
    """The short commit of a checkout, with `-dirty` if its package has uncommitted changes."""
    git = ["git", "-C", str(checkout)]
    changed = subprocess.run([*git, "status", "--porcelain", "gmi_drl"], capture_output=True, text=True, check=True)
    named = subprocess.run([*git, "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=True)
    return named.stdout.strip() + ("-dirty" if changed.stdout else "")


def command(checkout: Path, *arguments: str) -> dict[str, Any]:
    """The arguments of `subprocess.run` for a `gmi-drl` command of a checkout, run in any folder."""
    return _python(checkout, "-c", _MAIN, *arguments)


def run(checkout: Path, line: Sequence[str], folder: Path, cores: Sequence[int] | None = None) -> None:
    """Run a command of a checkout until it ends. Its claims on cores do not exclude other runs.

    Args:
        checkout: Its root.
        line: `gmi-drl` and its arguments, or a module of the checkout's `tools` and its arguments.
        folder: The working directory.
        cores: CPUs that it may use; None for all.

    Raises:
        RuntimeError: if it fails; the message is its last output.
    """
    program, *arguments = line
    _ended(command(checkout, *arguments) if program == "gmi-drl" else _python(checkout, "-m", *line), folder, cores)


def printed(checkout: Path, lines: Sequence[Sequence[str]], folder: Path, cores: Sequence[int]) -> list[str]:
    """The output and exit code of each of several `gmi-drl` commands. All run in one process.

    Args:
        checkout: Its root.
        lines: The arguments of each command.
        folder: The working directory.
        cores: CPUs that they may use.

    Raises:
        RuntimeError: if one ends in a traceback.
    """
    texts: list[str] = json.loads(_ended(_python(checkout, "-c", _ALL, json.dumps(lines)), folder, cores))
    return texts


def train(checkout: Path, options: Mapping[str, object], folder: Path, cores: Sequence[int] | None = None) -> None:
    """Run `gmi-drl train` of a checkout until it ends.

    Args:
        checkout: Its root.
        options: Of the command, by name: `{"--task": "ant"}`.
        folder: Of the run.
        cores: CPUs that it may use; None for all.

    Raises:
        RuntimeError: if it fails; the message is its last output.
    """
    given = [str(part) for option in {**options, "--run-dir": folder}.items() for part in option]
    run(checkout, ["gmi-drl", "train", *given], folder.parent, cores)


def _python(checkout: Path, *arguments: str) -> dict[str, Any]:
    line = [sys.executable, "-P", *arguments]  # -P: else the working directory goes before PYTHONPATH
    return {"args": line, "env": os.environ | {"PYTHONPATH": str(checkout)}}


def _ended(asked: dict[str, Any], folder: Path, cores: Sequence[int] | None) -> str:
    """Run a command until it ends. Returns its stdout."""
    pinned = ["taskset", "-c", ",".join(map(str, cores))] if cores else []
    with TemporaryDirectory(prefix="gmi-drl-claims-") as claims:
        ended = subprocess.run(
            [*pinned, *asked["args"]],
            cwd=folder,
            env=asked["env"] | {"GMI_DRL_CLAIMS": claims},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )
    if ended.returncode != 0:
        raise RuntimeError(
            f"{asked['env']['PYTHONPATH']}: {' '.join(asked['args'][2:])}: {ended.stderr.strip()[-2000:]}"
        )
    return ended.stdout
