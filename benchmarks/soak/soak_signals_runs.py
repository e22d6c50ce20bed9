"""The commands that `soak_signals.py` disturbs: how they are run, their processes, and layouts of each template."""

import fcntl
import os
import random
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from signal import SIGKILL, Signals
from types import MappingProxyType
from uuid import uuid4

import psutil

MARK = "GMI_DRL_SOAK"
"""The environment variable by which all processes of a fault are found."""
STARTS_S = 240.0
"""Seconds until a first row, on a busy machine."""
SETTINGS = ("--set", "checkpoint_every=3", "--set", "hang_s=30")
FOREVER = 10**6
TRAINING = {
    "TCG_EX": ("--task", "ant", "--num-env", "8", "--gmis-per-gpu", "2"),
    "rsl_rl": ("--task", "ant", "--num-env", "8", "--gmis-per-gpu", "2", "--algo", "rsl_rl"),
    "TDG_EX": ("tdg_ex.yaml",),
    "decoupled": ("decoupled.yaml", "--set", "learner.hidden=[64]"),
}
SERVING = {"TCG": "tcg.yaml", "TDG": "tdg.yaml"}
GMI = "{{id: {id}, roles: [{roles}], num_env: {num_env}, cores: [0]}}"
LAYOUTS = {
    "tdg_ex": ("TDG_EX", [("simulator", 8), ("agent", 0), ("trainer", 0)], [2], ""),
    "decoupled": ("decoupled", [("trainer", 0), ("simulator, agent", 8), ("simulator, agent", 8)], [0], "max_lag: 2"),
    "tcg": ("TCG", [("simulator, agent", 8), ("simulator, agent", 8)], [], ""),
    "tdg": ("TDG", [("simulator", 8), ("agent", 0)], [], ""),
}
"""By file: template, roles and environments of the GMIs of one device, trainers, channels."""


@dataclass
class Place:
    """A folder with layouts, and a short run of each template to resume or serve."""

    folder: Path
    start_s: dict[str, float] = field(default_factory=dict)

    def run_of(self, template: str) -> Path:
        """The folder of the short run of a template."""
        return self.folder / "short" / (template if template in TRAINING else "TCG_EX")


def with_layouts(folder: Path) -> Place:
    """Write the layouts into a folder."""
    for name, (template, gmis, trainers, channels) in LAYOUTS.items():
        listed = ", ".join(GMI.format(id=n, roles=of, num_env=count) for n, (of, count) in enumerate(gmis))
        lines = ["version: 2", "task: ant", f"template: {template}", "share_cores: true"]
        lines += [f"devices: [{{kind: cpu, index: 0, gmis: [{listed}]}}]"]
        lines += [f"groups: {{trainers: {{members: {trainers}, reduction: none}}}}"] if trainers else []
        lines += [f"channels: {{{channels}}}"] if channels else []
        (folder / f"{name}.yaml").write_text("\n".join(lines) + "\n")
    return Place(folder)


def prepared(folder: Path) -> Place:
    """Write layouts and short runs into a folder."""
    place = with_layouts(folder)
    (folder / "short").mkdir()
    for template in TRAINING:
        began = time.monotonic()
        with started(place, trained(template, place.run_of(template), iterations=6)) as run:
            said = run.wait(STARTS_S)
        if run.process.returncode:
            raise SystemExit(f"no training by {template}: {said}")
        place.start_s[template] = time.monotonic() - began
    return place


def trained(template: str, run: Path, *, iterations: int = FOREVER, restarts: int = 0) -> list[str]:
    """The command of a training."""
    what = [*TRAINING[template], *SETTINGS, "--run-dir", str(run), "--restarts", str(restarts)]
    return ["train", *what, "--iterations", str(iterations)]


def resumed(run: Path, iterations: int, restarts: int = 0) -> list[str]:
    """The command that resumes a training."""
    return ["train", "--resume", str(run), "--iterations", str(iterations), "--restarts", str(restarts)]


class Running:
    """A running command with its output so far and all its processes, which have its mark in their environment.

    Args:
        place: Where it runs.
        arguments: Of `gmi-drl`.
        variables: Further ones of its environment.
        terminal: The descriptor of its controlling terminal; -1: it has none.
    """

    def __init__(
        self,
        place: Place,
        arguments: list[str],
        variables: Mapping[str, str] = MappingProxyType({}),
        terminal: int = -1,
    ) -> None:
        self.mark, self.output = uuid4().hex, place.folder / f"{uuid4().hex}.out"
        self.claims = place.folder / f"claims-{self.mark}"
        self.claims.mkdir()
        settings = {MARK: self.mark, "GMI_DRL_CLAIMS": str(self.claims), "OMP_NUM_THREADS": "1"}
        has_terminal = terminal >= 0
        with self.output.open("wb") as output:
            self.process = subprocess.Popen(
                [str(Path(sys.executable).with_name("gmi-drl")), *arguments],
                cwd=place.folder,
                env=os.environ | settings | variables,
                stdin=terminal if has_terminal else subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=(lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0)) if has_terminal else None,
            )

    def processes(self) -> list[psutil.Process]:
        """The processes with the mark that are no zombies."""
        found = []
        for process in psutil.process_iter():
            with suppress(psutil.Error):
                if process.environ().get(MARK) == self.mark and process.status() != psutil.STATUS_ZOMBIE:
                    found.append(process)
        return found

    def left(self, wait_s: float) -> list[str]:
        """What is wrong if processes are left after so long: their command lines."""
        deadline = time.monotonic() + wait_s
        while (left := self.processes()) and time.monotonic() < deadline:
            time.sleep(0.1)
        return [f"left: {[' '.join(process.cmdline())[:90] for process in left]}"] if left else []

    def named(self, part: str) -> list[psutil.Process]:
        """The processes whose command line contains a text."""
        found = []
        for process in self.processes():
            with suppress(psutil.Error):
                if part in " ".join(process.cmdline()):
                    found.append(process)
        return found

    def said(self) -> str:
        """Its output so far."""
        return self.output.read_text(errors="replace")

    def wait(self, seconds: float) -> str:
        """Wait until it has ended, at most some seconds. Returns its output."""
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(seconds)
        return self.said()

    def wait_for(self, condition: Callable[[], bool], seconds: float) -> bool:
        """Wait until a condition holds, it has ended, or some seconds have passed. Returns whether it holds."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline and self.process.poll() is None and not condition():
            time.sleep(0.05)
        return condition()


@contextmanager
def started(
    place: Place, arguments: list[str], variables: Mapping[str, str] = MappingProxyType({}), terminal: int = -1
) -> Iterator[Running]:
    """Run a command during a `with` block, as `Running`; its remaining processes are killed at the end."""
    run = Running(place, arguments, variables, terminal)
    try:
        yield run
    finally:
        for process in run.processes():
            with suppress(psutil.Error):
                process.kill()
        run.process.wait()


def send(number: Signals, processes: list[psutil.Process]) -> None:
    """Send a signal to each process, one right after the other."""
    for process in processes:
        with suppress(psutil.Error):
            process.send_signal(number)


def kill(chance: random.Random, processes: list[psutil.Process]) -> None:
    """Kill one of the processes, if there is any."""
    if processes:
        send(SIGKILL, [chance.choice(processes)])
