"""What every result records of its machine, and how busy other processes kept it during the measurement."""

import os
import platform
import subprocess
import time
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

import psutil

from gmi_drl.errors import GmiError
from gmi_drl.files import FileModel
from gmi_drl.gmi.inventory import allowed_cores, visible_gpus
from gmi_drl.hardware.host_memory import memory_bytes
from gmi_drl.run.folder import versions
from gmi_drl.units import human_bytes

BUSY = 0.05
"""Share of the cores in use by other processes from which a result has a warning."""
TOO_BUSY = 0.25
"""Share from which the guard ignores results: processes of one side wait for each other on busy cores."""
PACKAGE = Path(__file__).parent.parent
COMPARED = ("rsl-rl-lib", "gymnasium")
GIT_S = 10.0
Load = tuple[float, float, float]


class Machine(FileModel):
    """The machine, its load (1, 5 and 15 minutes), versions of packages and the commit, at the time of a measurement.

    `busy` is the share of the cores' time that processes other than this one and its children used.
    """

    date: str
    cpu: str
    cores: int
    memory_bytes: int
    gpus: tuple[str, ...]
    load_before: Load
    load_after: Load
    busy: float
    versions: dict[str, str]
    commit: str

    @property
    def warning(self) -> str | None:
        """Why the figures are doubtful; None on a quiet machine."""
        if self.busy < BUSY:
            return None
        return f"other processes took {self.busy:.0%} of the cores meanwhile: measure again on a quiet machine"

    @property
    def is_too_busy(self) -> bool:
        """Whether other processes used so much of the cores that the guard must ignore the figures."""
        return self.busy >= TOO_BUSY

    @property
    def described(self) -> str:
        """The machine in one line of text."""
        parts = [f"{self.cores} x {self.cpu}", human_bytes(self.memory_bytes), *self.gpus, f"torch {self.torch}"]
        return ", ".join([*parts, f"commit {self.commit}", self.date[:10], f"others took {self.busy:.1%} of the cores"])

    @property
    def torch(self) -> str:
        """Version of torch."""
        return self.versions["torch"]


class Watch:
    """Records the load of the machine from its construction until `machine` is called."""

    def __init__(self) -> None:
        self.cores = len(allowed_cores())
        self._watched = os.sched_getaffinity(0)  # a quota says how many cores, not which
        self.load_before = os.getloadavg()
        self._started_s = time.monotonic()
        self._busy_s, self._own_s = busy_s(self._watched), own_s()

    def machine(self) -> Machine:
        """The record, up to now."""
        others_s = (busy_s(self._watched) - self._busy_s) - (own_s() - self._own_s)
        elapsed_s = time.monotonic() - self._started_s
        return Machine(
            date=datetime.now(UTC).isoformat(timespec="seconds"),
            cpu=_cpu_model(),
            cores=self.cores,
            memory_bytes=memory_bytes(),
            gpus=_gpus(),
            load_before=self.load_before,
            load_after=os.getloadavg(),
            busy=round(min(max(0.0, others_s / (elapsed_s * len(self._watched))), 1.0), 4),
            versions=versions(*COMPARED),
            commit=commit(),
        )


def busy_s(cores: set[int]) -> float:
    """Seconds since boot in which these CPUs were busy, or were withheld by a hypervisor."""
    ticks = 0
    for line in Path("/proc/stat").read_text().splitlines():
        name, *fields = line.split()
        if name.removeprefix("cpu").isdigit() and int(name.removeprefix("cpu")) in cores:
            user, nice, system, _idle, _iowait, irq, softirq, steal = map(int, fields[:8])
            ticks += user + nice + system + irq + softirq + steal
    return ticks / os.sysconf("SC_CLK_TCK")


def own_s() -> float:
    """CPU seconds of this process and all its descendants, including those that have ended."""
    processes = [psutil.Process(), *psutil.Process().children(recursive=True)]
    seconds = 0.0
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            seconds += sum(process.cpu_times()[:4])  # user and system, its own and those of children that it waited for
    return seconds


def commit() -> str:
    """The commit of this code, with `-dirty` if the package differs from it; empty outside the repository."""
    if not _git("ls-files", "__init__.py"):
        return ""
    return _git("rev-parse", "--short", "HEAD") + ("-dirty" if _git("status", "--porcelain", ".") else "")


def _git(*arguments: str) -> str:
    try:
        line = ["git", "-C", str(PACKAGE), *arguments]
        return subprocess.run(line, capture_output=True, text=True, timeout=GIT_S, check=True).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return ""


def _gpus() -> tuple[str, ...]:
    """Models and drivers. Empty if the driver fails, so that a result of minutes is not lost by that."""
    try:
        return tuple(f"{gpu.model} (driver {gpu.driver})" for gpu in visible_gpus())
    except GmiError as error:
        return (f"unknown: {error}",)


def _cpu_model() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), platform.machine())
