"""Soak: random faults over trainings on two hosts, which are network namespaces of this machine (root is needed).

    python benchmarks/soak_nodes.py --faults 50
    python benchmarks/soak_nodes.py --faults 50 --ray

A GMI, an agent or the launcher is killed, a GMI or an agent stopped, a link cut for five seconds or for good, at a
random moment. With `--ray`, where a Ray cluster over both hosts starts the agents and the launcher is on the first of
them, Ray's daemons of the other node or of the head are killed, too, and the process that speaks with Ray. Each run
must end as promised (or go on), within its time, with nothing left, and must go on from its checkpoint.
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
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import psutil

HERE = Path(__file__).parent
sys.path += [str(HERE.parent / "tests"), str(HERE.parent / "tests" / "launch" / "nodes")]

from networks import Hosts, obstacle, two_hosts  # noqa: E402
from ray_hosts import RayHosts, ray_hosts  # noqa: E402
from soak_nodes_launcher import HANG_S, RAY  # noqa: E402

ENDS_S = 40.0
"""Until nothing may be left: an agent waits 30 s for a launcher that has gone silent."""
NAMED_S = 20.0
"""Until a launcher must have ended with an error: a node is lost after 8 s."""
STOPPED_S = HANG_S + NAMED_S
"""The same where a GMI is stopped, for which its peers wait before they name it."""
AGAIN_S = 150.0
"""For a run that goes on for two iterations: it and its cluster start anew."""
LATEST_S = 6.0
FAULTS = ("gmi", "gmi stopped", "agent killed", "agent stopped", "launcher killed", "link down for 5 s", "link down")
RAY_FAULTS = (*FAULTS, "daemons of a node killed", "head killed", "driver killed")
MODULES = {
    "gmi": "gmi_drl.roles.child",
    "gmi stopped": "gmi_drl.roles.child",
    "driver killed": "gmi_drl.launch.ray.driver",
}
"""Whose process it is; else an agent's."""
SAID = {
    "gmi": "was killed by SIGKILL",
    "gmi stopped": "hang_s",
    "agent killed": "was lost with its node",
    "agent stopped": "was lost with its node",
    "link down": "was lost with its node",
    "daemons of a node killed": "was lost with its node",
    "head killed": "was lost with its node",
    "driver killed": "was lost with its node",
}


def main() -> int:
    """Soak. Returns 1 if a fault ended otherwise than promised."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--faults", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--ray", action="store_true", help="have Ray start the agents")
    given = parser.parse_args()
    if why := obstacle():
        parser.error(why)
    with TemporaryDirectory(prefix="gmi-claims-", dir="/tmp") as claims:
        os.environ["GMI_DRL_CLAIMS"] = claims  # what else holds cores here is no fault
        wrong = soaked(given.faults, given.seed, RAY_FAULTS if given.ray else FAULTS)
    print(f"{given.faults} faults, wrong: {wrong or 'none'}")
    return 1 if wrong else 0


def soaked(faults: int, seed: int, kinds: Sequence[str]) -> list[str]:
    """What went otherwise than promised, each in a sentence."""
    chance, wrong, seconds = random.Random(seed), list[str](), Counter[str]()
    for number in range(faults):
        fault = kinds[number % len(kinds)]
        with TemporaryDirectory(prefix="gmi-soak-", dir="/tmp") as path:
            started = time.monotonic()
            mistakes = one(fault, Path(path), chance, by_ray=kinds is RAY_FAULTS)
            seconds[fault] += round(time.monotonic() - started)
        print(f"{number + 1}: {fault}: {'; '.join(mistakes) or 'as promised'}", flush=True)
        wrong += [f"{number + 1} ({fault}): {mistake}" for mistake in mistakes]
    print(f"seconds in all: {dict(seconds)}")
    return wrong


def one(fault: str, path: Path, chance: random.Random, *, by_ray: bool) -> list[str]:
    """One training with one fault: what was wrong."""
    with places(path, by_ray=by_ray) as place:
        mistakes = with_fault(fault, path / "run", place, chance)
    with places(path, by_ray=by_ray) as place, place.launched(path / "run", "resume") as again:
        said = ended(again, AGAIN_S)
        if again.returncode:
            mistakes.append("it did not go on: " + (f"{said.splitlines()[-1:]}" if said else f"not in {AGAIN_S:.0f} s"))
    return mistakes


def with_fault(fault: str, run: Path, place: "Place", chance: random.Random) -> list[str]:
    """What was wrong with how the training ended."""
    mistakes = []
    with place.launched(run) as launcher:
        await_row(launcher)
        time.sleep(chance.uniform(0, LATEST_S))
        every = place.ours(launcher)
        cause(fault, launcher, place, chance)
        goes_on = fault == "link down for 5 s"
        if goes_on:
            threading.Thread(target=lambda: [None for _ in launcher.stdout], daemon=True).start()
            time.sleep(12)
            if launcher.poll() is not None:
                mistakes.append("the run has ended")
            launcher.send_signal(signal.SIGINT)
        said = ended(launcher, ENDS_S if goes_on else STOPPED_S if fault == "gmi stopped" else NAMED_S)
    if said is None:
        mistakes.append("it has not ended in time")
    elif fault in SAID and SAID[fault] not in said:
        mistakes.append(f"it said {said!r}")
    for node in "ab":
        place.hosts.link(node, "up")
    if left := living(every, ENDS_S):
        mistakes.append(f"left: {left}")
    return mistakes


def cause(fault: str, launcher: "subprocess.Popen[str]", place: "Place", chance: random.Random) -> None:
    """Bring it about."""
    node = chance.choice("ab")
    if fault == "launcher killed":
        launcher.kill()
    elif fault.startswith("link down"):
        place.hosts.link(node, "down")
        if fault.endswith("5 s"):
            threading.Timer(5, place.hosts.link, (node, "up")).start()
    elif fault in ("daemons of a node killed", "head killed"):
        assert isinstance(place.cluster, RayHosts)
        os.killpg(place.cluster.daemons["a" if fault == "head killed" else "b"].pid, signal.SIGKILL)
    else:
        wanted = MODULES.get(fault, "gmi_drl.launch.nodes.agent")
        found = [one for one in place.ours(launcher) if wanted in one.cmdline()]
        chance.choice(found).send_signal(signal.SIGSTOP if fault.endswith("stopped") else signal.SIGKILL)


class Place:
    """Two hosts, and how a launcher is started that trains over them."""

    def __init__(self, hosts: Hosts, cluster: RayHosts | None = None) -> None:
        self.hosts, self.cluster = hosts, cluster

    def launched(self, run: Path, *more: str) -> "subprocess.Popen[str]":
        """A launcher; on the first host, if Ray starts the agents."""
        how = RAY if self.cluster else ",".join((self.hosts.address, *self.hosts.spaces.values()))
        variables = self.cluster.variables if self.cluster else os.environ
        return subprocess.Popen(
            [
                *(self.hosts.prefixes["a"] if self.cluster else ()),
                *(sys.executable, str(HERE / "soak_nodes_launcher.py"), str(run), how, *more),
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**variables, "PYTHONPATH": f"{HERE.parent}:{os.environ.get('PYTHONPATH', '')}"},
        )

    def ours(self, launcher: "subprocess.Popen[str]") -> list[psutil.Process]:
        """What the launcher has started, there and here; nothing of Ray."""
        listed = [
            subprocess.run(["ip", "netns", "pids", space], check=True, capture_output=True, text=True, timeout=20)
            for space in self.hosts.spaces.values()
        ]
        pids = {int(pid) for pids in listed for pid in pids.stdout.split()} - {launcher.pid}
        pids |= {child.pid for child in psutil.Process(launcher.pid).children(recursive=True)}
        found = [psutil.Process(pid) for pid in pids if psutil.pid_exists(pid)]
        return [one for one in found if "gmi_drl" in " ".join(one.cmdline())]


@contextmanager
def places(path: Path, *, by_ray: bool) -> Iterator[Place]:
    """Two hosts, for the time of a `with` block."""
    if not by_ray:
        with two_hosts() as hosts:
            yield Place(hosts)
        return
    with TemporaryDirectory(prefix="gmi-", dir="/tmp", ignore_cleanup_errors=True) as ray, ray_hosts(ray) as cluster:
        yield Place(cluster.hosts, cluster)


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


def living(processes: list[psutil.Process], within_s: float) -> list[str]:
    """Those that have not ended in time."""
    _, left = psutil.wait_procs(processes, timeout=within_s)
    names = []
    for one in left:
        with suppress(psutil.Error):  # zombies are nobody's
            names.append(" ".join(one.cmdline())[:80])
    return names


if __name__ == "__main__":
    sys.exit(main())
