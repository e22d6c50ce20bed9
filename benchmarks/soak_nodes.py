"""Soak: random faults over trainings on two hosts, which are network namespaces of this machine (root is needed).

    python benchmarks/soak_nodes.py --faults 50

A GMI, an agent or the launcher is killed, an agent stopped, a link cut for five seconds or for good, at a random
moment. Each run must end as promised (or go on), within its time, with nothing left, and must go on from its
checkpoint.
"""

import argparse
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory

import psutil

HERE = Path(__file__).parent
sys.path += [str(HERE.parent / "tests"), str(HERE.parent / "tests" / "launch" / "nodes")]

from networks import TwoHosts, obstacle, two_hosts  # noqa: E402
from soak_nodes_launcher import prefixes_of  # noqa: E402

ENDS_S = 40.0
"""Until nothing may be left: an agent waits 30 s for a launcher that has gone silent."""
NAMED_S = 20.0
"""Until a launcher must have ended with an error: a node is lost after 8 s."""
START_S = 60.0
LATEST_S = 6.0
FAULTS = ("gmi", "agent killed", "agent stopped", "launcher killed", "link down for 5 s", "link down")
SAID = {
    "gmi": "was killed by SIGKILL",
    "agent killed": "was lost with its node",
    "agent stopped": "was lost with its node",
    "link down": "was lost with its node",
}


def main() -> int:
    """Soak. Returns 1 if a fault ended otherwise than promised."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--faults", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    if why := obstacle():
        parser.error(why)
    wrong = soaked(given.faults, given.seed)
    print(f"{given.faults} faults, wrong: {wrong or 'none'}")
    return 1 if wrong else 0


def soaked(faults: int, seed: int) -> list[str]:
    """What went otherwise than promised, each in a sentence."""
    chance, wrong, seconds = random.Random(seed), list[str](), Counter[str]()
    for number in range(faults):
        fault = FAULTS[number % len(FAULTS)]
        with TemporaryDirectory(prefix="gmi-drl-soak-") as path, two_hosts() as hosts:
            started = time.monotonic()
            mistakes = one(fault, Path(path) / "run", hosts, chance)
            seconds[fault] += round(time.monotonic() - started)
        print(f"{number + 1}: {fault}: {'; '.join(mistakes) or 'as promised'}", flush=True)
        wrong += [f"{number + 1} ({fault}): {mistake}" for mistake in mistakes]
    print(f"seconds in all: {dict(seconds)}")
    return wrong


def one(fault: str, run: Path, hosts: TwoHosts, chance: random.Random) -> list[str]:
    """One training with one fault: what was wrong."""
    mistakes = []
    with launched(run, hosts) as launcher:
        await_row(launcher)
        time.sleep(chance.uniform(0, LATEST_S))
        every = [child.pid for child in psutil.Process(launcher.pid).children(recursive=True)]
        cause(fault, launcher, hosts, chance)
        goes_on = fault == "link down for 5 s"
        if goes_on:
            threading.Thread(target=lambda: [None for _ in launcher.stdout], daemon=True).start()
            time.sleep(12)
            if launcher.poll() is not None:
                mistakes.append("the run has ended")
            launcher.send_signal(signal.SIGINT)
        said = ended(launcher, ENDS_S if goes_on else NAMED_S)
    if said is None:
        mistakes.append("it has not ended in time")
    elif fault in SAID and SAID[fault] not in said:
        mistakes.append(f"it said {said!r}")
    for node in "ab":
        hosts.link(node, "up")
    left = living(every, ENDS_S)
    if left:
        mistakes.append(f"left: {left}")
    with launched(run, hosts, "resume") as again:
        if again.wait(START_S):
            mistakes.append(f"it did not go on: {again.stderr.read().splitlines()[-1:]}")
    return mistakes


def cause(fault: str, launcher: "subprocess.Popen[str]", hosts: TwoHosts, chance: random.Random) -> None:
    """Bring it about."""
    node = chance.choice("ab")
    if fault == "launcher killed":
        launcher.kill()
    elif fault.startswith("link down"):
        hosts.link(node, "down")
        if fault.endswith("5 s"):
            threading.Timer(5, hosts.link, (node, "up")).start()
    else:
        wanted = "gmi_drl.roles.child" if fault == "gmi" else "gmi_drl.launch.nodes.agent"
        found = [one for one in psutil.Process(launcher.pid).children(recursive=True) if wanted in one.cmdline()]
        chance.choice(found).send_signal(signal.SIGSTOP if fault == "agent stopped" else signal.SIGKILL)


def launched(run: Path, hosts: TwoHosts, *more: str) -> "subprocess.Popen[str]":
    """A launcher of a training over both hosts."""
    return subprocess.Popen(
        [sys.executable, str(HERE / "soak_nodes_launcher.py"), str(run), *prefixes_of(hosts), *more],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": f"{HERE.parent}:{os.environ.get('PYTHONPATH', '')}"},
    )


def await_row(launcher: "subprocess.Popen[str]") -> None:
    """Until it iterates."""
    assert launcher.stdout is not None and launcher.stderr is not None
    if not launcher.stdout.readline():
        raise SystemExit(f"no training has begun: {launcher.stderr.read()}")


def ended(launcher: "subprocess.Popen[str]", within_s: float) -> str | None:
    """What it said as it ended; None if it has not in time."""
    try:
        _, said = launcher.communicate(timeout=within_s)
    except subprocess.TimeoutExpired:
        launcher.kill()
        return None
    return said


def living(pids: list[int], within_s: float) -> list[str]:
    """Those that have not ended in time."""
    deadline = time.monotonic() + within_s
    while True:
        left = [psutil.Process(pid) for pid in pids if psutil.pid_exists(pid)]
        names = [" ".join(one.cmdline())[:80] for one in left if one.is_running() and one.status() != "zombie"]
        if not names or time.monotonic() > deadline:
            return names
        time.sleep(0.2)


if __name__ == "__main__":
    sys.exit(main())
