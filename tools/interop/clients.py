"""The other libraries, each with the Python in which it is installed and its trials."""

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from tools.interop import mjlab
from tools.interop.runs import ROOT, RunFailedError, Trial, run, train

Row = dict[str, str]
Trials = dict[str, Callable[[], Row]]
"""By task, a function that tries it and returns the row of results."""


@dataclass(frozen=True)
class Client:
    """A library whose tasks gmi-drl trains.

    Args:
        name: Of its section on the page.
        python: The interpreter in which it is installed.
        packages: Results are for their versions; with other versions the trials run again.
        remedy: How to install it.
        open: A context manager with the trials for this Python.
    """

    name: str
    python: Path
    packages: tuple[str, ...]
    remedy: str
    open: Callable[[Path], AbstractContextManager[Trials]]

    def versions(self) -> dict[str, str]:
        """The versions of its packages; empty for one that is not installed."""
        if not self.python.exists():
            return {}
        code = f"import json, importlib.metadata as m; print(json.dumps({{p: m.version(p) for p in {self.packages}}}))"
        asked = run(self.python, ["-c", code], ROOT)
        told: dict[str, str] = json.loads(asked.stdout) if asked.returncode == 0 else {}
        return told


@contextmanager
def open_mjlab(python: Path) -> Iterator[Trials]:
    """Trials of every task of mjlab's registry."""
    with TemporaryDirectory(prefix="gmi-drl-interop-") as path:
        folder = Path(path)
        tasks = mjlab.tasks(python, folder)
        yield {
            task: partial(mjlab.row, python, task, follows=follows, folder=folder) for task, follows in tasks.items()
        }


@contextmanager
def open_named(tasks: tuple[str, ...], python: Path) -> Iterator[Trials]:
    """Trials of these tasks with our own PPO."""
    with TemporaryDirectory(prefix="gmi-drl-interop-") as path:
        yield {task: partial(_row, python, Trial(task), Path(path)) for task in tasks}


def _row(python: Path, trial: Trial, folder: Path) -> Row:
    told = {}
    for gmis in (1, 2):
        column = f"{gmis} GMI{'s' if gmis > 1 else ''}"
        try:
            train(python, trial, gmis, folder / f"{trial.task.replace(':', '-')}-{gmis}")
            told[column] = f"trains, {trial.iterations} iterations{', replicas alike' if gmis > 1 else ''}"
        except RunFailedError as failure:
            told[column] = f"fails: {failure}"
    return told


_OURS, _PLAYGROUND = Path(sys.executable), ROOT / ".playground" / "bin" / "python"
_MJLAB = ROOT / ".peers" / "mjlab" / "bin" / "python"

CLIENTS = {
    client.name: client
    for client in (
        Client(
            "mjlab",
            _MJLAB,
            ("mjlab", "mujoco", "mujoco-warp", "warp-lang", "rsl-rl-lib", "torch"),
            "python benchmarks/peers/setup.py mjlab",
            open_mjlab,
        ),
        Client(
            "gymnasium",
            _OURS,
            ("gymnasium", "mujoco", "torch"),
            "make .venv",
            partial(open_named, ("gymnasium:Ant-v5", "gymnasium:Pendulum-v1")),
        ),
        Client("envpool", _OURS, ("envpool", "torch"), "make test", partial(open_named, ("envpool:Ant-v5",))),
        Client(
            "MuJoCo Playground",
            _PLAYGROUND,
            ("playground", "mujoco", "jax", "torch"),
            "make playground",
            partial(open_named, ("playground:CartpoleBalance",)),
        ),
    )
}
