"""Soak: random faults in runs under MPS, with fakes of MPS and CUDA. Nothing may be left behind.

    python benchmarks/soak/soak_mps.py --faults 200

A launcher holds a GPU by MPS and starts clients that always have work in flight; every fourth is a real run with real
GMIs. At a random moment one of the processes gets a signal, while the daemon behaves in a random way. In the end no
daemon, server, client or watchdog may be alive, no folder may be left, and no client may have died with work in
flight. Takes a quarter of an hour and more on two cores; needs what the tests need.
"""

import argparse
import os
import platform
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from tests.gmi.mps.fake_mps import FakeMps, install_programs  # noqa: E402
from tests.gmi.nvml.fake import FakeGpu, FakeNvml, compile_library  # noqa: E402

LAUNCHER = Path(__file__).with_name("soak_mps_launcher.py")
HABITS = ("slow", "hangs_at_quit", "ignores_sigterm", "hangs_at_terminate_client", "attaches_nobody", "refuses_start")
TARGETS = ("launcher", "keeper", "launcher and keeper", "daemon", "server")
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGKILL)
LONGEST_S = 4.0
"""Seconds until the fault, at most: clients work after two or three."""
GONE_S = 120.0
REAL_EVERY = 4


@dataclass(frozen=True)
class Fault:
    """A signal, its target, its moment, and how clients and daemon behave."""

    target: str
    number: signal.Signals
    after_s: float
    habits: tuple[str, ...]
    forks: bool
    client: str

    def __str__(self) -> str:
        more = [*self.habits, *(["a fork of the launcher lives on"] if self.forks else [])]
        told = f"{self.number.name} to {self.target} after {self.after_s:.1f} s, clients: {self.client}"
        return ", ".join([told, *more])


def main() -> int:
    """Run all faults. Returns 1 if anything was left."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--faults", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    print(f"{given.faults} faults, seed {given.seed}, Python {platform.python_version()}, {platform.machine()}")
    with tempfile.TemporaryDirectory(prefix="soak-") as path:
        wrong = soaked(given.faults, given.seed, Path(path))
    print(f"wrong: {len(wrong)} of {given.faults}")
    for text in wrong:
        print(f"  {text}")
    return 1 if wrong else 0


def soaked(count: int, seed: int, folder: Path) -> list[str]:
    """Run a number of faults, each on its own fake machine. Returns what was wrong."""
    programs, chance, wrong, ends = install_programs(folder), random.Random(seed), list[str](), Counter[str]()
    library = compile_library(folder)
    for number in range(count):
        fault = chosen(chance, is_real=number % REAL_EVERY == REAL_EVERY - 1)
        started = time.monotonic()
        said = undergone(fault, programs, library, folder / str(number))
        ends[fault.target] += 1
        print(f"{number + 1:4} {fault}: {said or 'nothing left'}, {time.monotonic() - started:.1f} s", flush=True)
        wrong += [f"{number + 1} {fault}: {said}"] if said else []
    print(", ".join(f"{many} to {target}" for target, many in sorted(ends.items())))
    return wrong


def chosen(chance: random.Random, is_real: bool) -> Fault:
    """Draw a random fault."""
    target = chance.choice(TARGETS)
    number = chance.choice(SIGNALS) if target == "launcher" else signal.SIGKILL
    habits = tuple(chance.sample(HABITS, chance.choice((0, 0, 1, 2))))
    client = "GMIs" if is_real else chance.choice(("drains", "deaf", "forks"))
    return Fault(target, number, chance.uniform(0.0, LONGEST_S), habits, chance.random() < 0.3, client)


def undergone(fault: Fault, programs: Path, library: Path, folder: Path) -> str:
    """Run a launcher with one fault. Returns what was wrong afterwards."""
    base = Path(tempfile.mkdtemp(prefix="mps-", dir="/tmp"))  # sockets need short paths
    (folder / "habits").mkdir(parents=True)
    (folder / "machine").mkdir()
    FakeNvml(folder / "machine").add(FakeGpu())
    fake = FakeMps(folder / "habits", base)
    for habit in fault.habits:
        fake.habit(habit, 0.3 if habit == "slow" else "")
    own = fake.environment(programs) | {"FAKE_NVML": str(folder / "machine"), "GMI_DRL_CLAIMS": str(folder / "claims")}
    own |= {"LD_LIBRARY_PATH": f"{library.parent}:{own['LD_LIBRARY_PATH']}", "PYTHONPATH": str(ROOT)}
    command = [sys.executable, str(LAUNCHER), fault.client, str(fault.forks), str(folder)]
    with (folder / "printed").open("wb") as printed:
        launcher = subprocess.Popen(
            command, env=os.environ | own, stdout=printed, stderr=printed, start_new_session=True, cwd=folder
        )
    try:
        time.sleep(fault.after_s)
        strike(fault, launcher, base)
        return what_is_wrong(fault, launcher, fake, os.environ | own)
    finally:
        for process in living(base):
            with suppress(psutil.Error):
                process.kill()
        launcher.wait()
        shutil.rmtree(base)


def strike(fault: Fault, launcher: subprocess.Popen[bytes], base: Path) -> None:
    """Send the signal to the target, if it exists."""
    names = {
        "keeper": "gmi_drl.gmi.launcher_watchdog",
        "daemon": "nvidia-cuda-mps-control",
        "server": "nvidia-cuda-mps-server",
    }
    for target, name in names.items():
        if target in fault.target:
            for process in living(base):
                with suppress(psutil.Error):
                    if name in " ".join(process.cmdline()):
                        process.send_signal(fault.number)
    if "launcher" in fault.target:
        launcher.send_signal(fault.number)
    else:  # other targets end later by themselves
        time.sleep(0.3)
        launcher.send_signal(signal.SIGINT)


def what_is_wrong(
    fault: Fault, launcher: subprocess.Popen[bytes], fake: FakeMps, environment: Mapping[str, str]
) -> str:
    """What is left, or was harmed, after the time that launcher and watchdog take."""
    deadline = time.monotonic() + GONE_S
    while left := [process for process in living(fake.base) if not is_fork(process)]:
        if fault.target == "launcher and keeper" and not {"keeper", "launcher"} & set(map(role_of, left)):
            break
        if time.monotonic() > deadline:
            return f"{len(left)} processes live: {[process.cmdline()[:4] for process in left]}"
        launcher.poll()
        time.sleep(0.05)
    if fault.target == "launcher and keeper":
        remove_stale(environment)
        left = [process for process in living(fake.base) if not is_fork(process)]
        if left:
            return f"{len(left)} processes live: {[process.cmdline()[:4] for process in left]}"
    if files := sorted(fake.base.rglob("*")):
        return f"files are left: {[str(file) for file in files]}"
    # If the daemon was killed, nothing can end a client's contexts any more.
    broken = fault.target in ("daemon", "server") or "hangs_at_terminate_client" in fault.habits
    harmed = [line for line in fake.log() if line.startswith("harmed")]
    return "" if broken or not harmed else f"{harmed}"


def remove_stale(environment: Mapping[str, str]) -> None:
    """Do what `gmi-drl doctor --remove-stale` does."""
    program = "from gmi_drl.gmi.mps import shutdown; print(shutdown.remove_stale())"
    subprocess.run(
        [sys.executable, "-c", program], env=environment, timeout=GONE_S, check=True, stdout=subprocess.DEVNULL
    )


def living(base: Path) -> Sequence[psutil.Process]:
    """All running processes of a fake machine."""
    mark, found = f"GMI_DRL_MPS={base}\0".encode(), []
    for process in psutil.process_iter():
        with suppress(OSError, psutil.Error):
            if mark in Path(f"/proc/{process.pid}/environ").read_bytes() and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
    return found


def role_of(process: psutil.Process) -> str:
    """The role of a process: `launcher`, `keeper` (its watchdog), or empty."""
    with suppress(psutil.Error):
        line = " ".join(process.cmdline())
        return "launcher" if LAUNCHER.name in line else "keeper" if "gmi_drl.gmi.launcher_watchdog" in line else ""
    return ""


def is_fork(process: psutil.Process) -> bool:
    """Whether a process is the launcher's fork, which must survive."""
    with suppress(OSError):
        return Path(f"/proc/{process.pid}/comm").read_text() == "fork-of-soak\n"
    return False


if __name__ == "__main__":
    sys.exit(main())
