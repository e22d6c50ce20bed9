"""Trainings by other libraries (peers), each in a virtual environment of its own.

`benchmarks/peers/setup.py` makes the environments. The other files there are drivers, which print a line of JSON per
update; `train_NAME.py` runs unless a case names another one.
"""

import json
import os
import signal
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from gmi_drl.errors import GmiError, MachineError
from gmi_drl.gmi.inventory import allowed_cores
from gmi_drl.roles.main import die_with

REPOSITORY = Path(__file__).resolve().parents[2]
SETUP = "python benchmarks/peers/setup.py"
"""The command that makes the environment of the peer whose name follows."""

START_S = 180.0
"""Seconds that a driver may take to start and to end, beside its training; the slowest needs half a minute."""


@dataclass(frozen=True)
class Update:
    """What a driver prints after each update.

    Attributes:
        env_steps: Environment steps so far.
        wall_s: Seconds so far.
        return_mean: Mean return of recent episodes; None before one has ended.
        episodes: The number of these episodes; None if the library does not give it.
        cores_s: Seconds since the machine's boot for which the driver's cores were busy.
        cpu_s: CPU seconds of the driver's process so far, all its threads together.
        weights: How many the networks have; None if the driver does not tell.
        replay_bytes: Memory of its replay; None if the driver does not tell.
    """

    env_steps: int
    wall_s: float
    return_mean: float | None
    episodes: int | None = None
    cores_s: float = 0.0
    cpu_s: float = 0.0
    weights: int | None = None
    replay_bytes: int | None = None


def obstacle(peer: str, driver: str | None = None) -> str | None:
    """Why this peer cannot run here, with the remedy; None if it can."""
    if not _driver(peer, driver).is_file():
        return f"{_driver(peer, driver)} is missing: run it from a checkout of the repository"
    return no_environment(peer)


def no_environment(peer: str) -> str | None:
    """Why the virtual environment of this peer cannot be used, with the remedy; None if it can."""
    if not _ready(peer).is_file() or _ready(peer).read_text() != _requirements(peer).read_text():
        return f"the virtual environment of {peer} is missing or old: {SETUP} {peer}"
    return None


def packages(peer: str) -> list[str]:
    """The packages that are pinned in the virtual environment of a peer."""
    return [line for line in _requirements(peer).read_text().splitlines() if line and not line.startswith("#")]


def python(peer: str) -> Path:
    """The interpreter of a peer's virtual environment.

    Raises:
        MachineError: if it is missing or old.
    """
    if missing := no_environment(peer):
        raise MachineError(missing)
    return _ready(peer).parent / "bin" / "python"


def train(
    peer: str, *, num_env: int, threads: int, seconds: float, driver: str | None = None, more: Sequence[str] = ()
) -> list[Update]:
    """Train for `seconds`. Returns the updates in order. All processes of the peer have ended then.

    Args:
        peer: The peer, in whose virtual environment the driver runs.
        num_env: Environments in all.
        threads: Threads of torch.
        seconds: Seconds of training, after which the driver ends.
        driver: File name without `.py`; None for `train_PEER`.
        more: Further arguments of the driver.

    Raises:
        MachineError: the virtual environment is missing.
        GmiError: the driver failed, or had not ended `START_S` after its time.
    """
    if missing := obstacle(peer, driver):
        raise MachineError(missing)
    sizes = ["--num-env", num_env, "--threads", threads, "--seconds", seconds]
    line = [str(part) for part in (python(peer), _driver(peer, driver), *sizes, *more)]
    parent, cores = os.getpid(), allowed_cores()

    def bind() -> None:
        """Die with this process, and run on the cores of our side, which may be fewer than the affinity has."""
        die_with(parent)
        os.sched_setaffinity(0, cores)

    process = subprocess.Popen(
        line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True, preexec_fn=bind
    )
    try:
        printed, complaints = process.communicate(timeout=seconds + START_S)
    except subprocess.TimeoutExpired:
        late = f"{peer} has not ended {START_S:.0f} s after its {seconds:.0f} s of training"
        raise GmiError(f"{late}: {' '.join(line)}") from None
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    if process.returncode != 0:
        last = "\n".join(complaints.splitlines()[-5:])
        raise GmiError(f"{peer} failed with exit code {process.returncode}: {' '.join(line)}\n{last}")
    return read_updates(printed)


def read_updates(printed: str) -> list[Update]:
    """The updates in the output of a driver, which has lines of the library, too."""
    return [Update(**json.loads(line)) for line in printed.splitlines() if line.startswith('{"env_steps"')]


def speed(updates: list[Update], warm_up: int) -> float:
    """Environment steps per second from the end of update number `warm_up` (counted from 1) to the last.

    Raises:
        GmiError: no update came after the warm-up.
    """
    if len(updates) <= warm_up:
        raise GmiError(f"{len(updates)} updates, {warm_up} of them warm-up, leave none to measure: give more time")
    first, last = updates[warm_up - 1], updates[-1]
    return (last.env_steps - first.env_steps) / (last.wall_s - first.wall_s)


def _driver(peer: str, driver: str | None) -> Path:
    return REPOSITORY / "benchmarks" / "peers" / f"{driver or f'train_{peer}'}.py"


def _requirements(peer: str) -> Path:
    return REPOSITORY / "benchmarks" / "peers" / "requirements" / f"{peer}.txt"


def _ready(peer: str) -> Path:
    return REPOSITORY / ".peers" / peer / "ready.txt"
