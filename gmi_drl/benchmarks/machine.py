"""What every result records of its machine, and how busy other processes kept it during the measurement."""

import os
import platform
import subprocess
from datetime import UTC, datetime
from pathlib import Path

from gmi_drl.errors import GmiError
from gmi_drl.files import FileModel
from gmi_drl.gmi.inventory import allowed_cores, visible_gpus
from gmi_drl.gmi.inventory.core_load import CoreLoad
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
        self.load_before = os.getloadavg()
        self._load = CoreLoad(os.sched_getaffinity(0))  # a quota says how many cores, not which

    def machine(self) -> Machine:
        """The record, up to now."""
        return Machine(
            date=datetime.now(UTC).isoformat(timespec="seconds"),
            cpu=_cpu_model(),
            cores=self.cores,
            memory_bytes=memory_bytes(),
            gpus=_gpus(),
            load_before=self.load_before,
            load_after=os.getloadavg(),
            busy=round(self._load.others(), 4),
            versions=versions(*COMPARED),
            commit=commit(),
        )


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
