"""Soak: random faults in trainings on two hosts, which are network namespaces of this machine (root is needed).

    python benchmarks/soak/soak_nodes.py --faults 50
    python benchmarks/soak/soak_nodes.py --faults 50 --ray
    python benchmarks/soak/soak_nodes.py --faults 22 --decoupled

At a random moment a GMI, a supervisor or the launcher is killed, a GMI or a supervisor is stopped, or a link is cut,
for five seconds or for good. With `--ray` a Ray cluster over both hosts starts the supervisors, and the launcher is on
the first host; also Ray's daemons of the other node or of the head are killed, or our process that talks to Ray. Each
run must end as promised (or go on), in time, leave nothing behind, and be resumable from its checkpoint. With
`--decoupled` agents are on both hosts and a trainer is on one: a remote agent, its proxy or the trainer is killed or
stopped, or the supervisor of the remote node is killed. Some of these runs may restart once and must then go on. If a
link is cut for five seconds, no experience may be dropped.
"""

import argparse
import os
import random
import re
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
ROOT = HERE.parents[1]
sys.path += [str(ROOT / "tests"), str(ROOT / "tests" / "launch" / "nodes")]

from networks import Hosts, obstacle, two_hosts  # noqa: E402
from ray_hosts import RayHosts, ray_hosts  # noqa: E402
from soak_nodes_launcher import EVERY, HANG_S, RAY  # noqa: E402

ENDS_S = 40.0
"""Seconds until nothing may be left: a supervisor waits 30 s for a silent launcher."""
NAMED_S = 20.0
"""Seconds until a launcher must have ended with an error: a node is lost after 8 s."""
STOPPED_S = 2 * HANG_S + NAMED_S
"""The same if a GMI is stopped: its peers wait before they report it, agents twice as long for a trainer."""
AGAIN_S = 150.0
"""Seconds for a resumed run of two iterations; it and its cluster start anew."""
SEEN_S, RESTARTED_S = 12.0, 30.0
"""Seconds after which a run must still go on: after a cut link, and after a restart."""
LAST_ROW_S = 5.0
"""The greatest age of its last row then, in seconds."""
LATEST_S = 6.0
RESTARTS = ", with a restart"
FAULTS = (
    "gmi",
    "gmi stopped",
    "supervisor killed",
    "supervisor stopped",
    "launcher killed",
    "link down for 5 s",
    "link down",
)
DECOUPLED_FAULTS = (
    "remote agent killed",
    "proxy killed",
    "trainer killed",
    "remote agent stopped",
    "proxy stopped",
    "trainer stopped",
    "link down for 5 s",
    "link down",
    "remote agent killed, with a restart",
    "proxy killed, with a restart",
    "node b killed, with a restart",
)
RAY_FAULTS = (*FAULTS, "daemons of a node killed", "head killed", "driver killed")
SUPERVISOR, CHILD, PROXY = "gmi_drl.launch.nodes.supervisor", "gmi_drl.roles.main", "gmi_drl.roles.decoupled.proxy_main"
VICTIMS = {
    "gmi": (CHILD, ""),
    "supervisor": (SUPERVISOR, ""),
    "driver": ("gmi_drl.launch.ray.process", ""),
    "remote agent": (CHILD, "GMI 2 "),
    "proxy": (PROXY, "GMI 2 "),
    "trainer": (CHILD, "GMI 0 "),
    "node b": (SUPERVISOR, "b"),
}
"""The process of a fault by its first words: its module, and the start of its name."""
SAID = {
    "gmi": "was killed by SIGKILL",
    "gmi stopped": "hang_s",
    "remote agent killed": r"GMI 2 \(process \d+, node b\) was killed by SIGKILL",
    "proxy killed": r"the proxy of GMI 2 \(process \d+, node a\) was killed by SIGKILL",
    "trainer killed": r"GMI 0 \(process \d+, node a\) was killed by SIGKILL",
    "remote agent stopped": r"GMI 2 \(process \d+\) lives but has not sent experience",
    "proxy stopped": r"GMI 2 .*has not",
    "trainer stopped": r"GMI 0 \(process \d+\) lives but has not",
    "remote agent killed, with a restart": r"GMI 2 .* was killed by SIGKILL.*: started again alone",
    "proxy killed, with a restart": r"the proxy of GMI 2 .* was killed by SIGKILL.*: going on from iteration",
    "node b killed, with a restart": r"was lost with its node: going on from iteration \d+ on a",
    "supervisor killed": "was lost with its node",
    "supervisor stopped": "was lost with its node",
    "link down": "was lost with its node",
    "daemons of a node killed": "was lost with its node",
    "head killed": "was lost with its node",
    "driver killed": "was lost with its node",
}
"""A pattern that the launcher's errors must match, by fault."""


def main() -> int:
    """Run all faults. Returns 1 if one ended differently than promised."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--faults", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--ray", action="store_true", help="have Ray start the supervisors")
    parser.add_argument("--decoupled", action="store_true", help="train asynchronously, with faults of that")
    given = parser.parse_args()
    if given.ray and given.decoupled:
        parser.error("--decoupled and --ray have faults of their own: take one of them")
    if why := obstacle():
        parser.error(why)
    with TemporaryDirectory(prefix="gmi-claims-", dir="/tmp") as claims:
        os.environ["GMI_DRL_CLAIMS"] = claims  # ignore claims of other programs
        wrong = soaked(
            given.faults, given.seed, RAY_FAULTS if given.ray else DECOUPLED_FAULTS if given.decoupled else FAULTS
        )
    print(f"{given.faults} faults, wrong: {wrong or 'none'}")
    return 1 if wrong else 0


def soaked(faults: int, seed: int, kinds: Sequence[str]) -> list[str]:
    """Run faults. Returns what was not as promised, a sentence each."""
    chance, wrong, seconds = random.Random(seed), list[str](), Counter[str]()
    for number in range(faults):
        fault = kinds[number % len(kinds)]
        with TemporaryDirectory(prefix="gmi-soak-", dir="/tmp") as path:
            started = time.monotonic()
            mistakes = one(fault, Path(path), chance, kinds)
            seconds[fault] += round(time.monotonic() - started)
        print(f"{number + 1}: {fault}: {'; '.join(mistakes) or 'as promised'}", flush=True)
        wrong += [f"{number + 1} ({fault}): {mistake}" for mistake in mistakes]
    print(f"seconds in all: {dict(seconds)}")
    return wrong


def one(fault: str, path: Path, chance: random.Random, kinds: Sequence[str]) -> list[str]:
    """Run one training with one fault. Returns what was wrong."""
    with places(path, kinds) as place:
        mistakes = with_fault(fault, path / "run", place, chance)
    with places(path, kinds) as place, place.launched(path / "run", "resume") as again:
        said = ended(again, AGAIN_S)
        if again.returncode:
            mistakes.append("it did not go on: " + (f"{said.splitlines()[-1:]}" if said else f"not in {AGAIN_S:.0f} s"))
    return mistakes


def with_fault(fault: str, run: Path, place: "Place", chance: random.Random) -> list[str]:
    """What was wrong with how the training ended."""
    mistakes, goes_on = list[str](), fault == "link down for 5 s" or fault.endswith(RESTARTS)
    with place.launched(run, *["restarts"] * fault.endswith(RESTARTS)) as launcher:
        await_row(launcher, saved=goes_on)
        time.sleep(chance.uniform(0, LATEST_S))
        every = place.ours(launcher)
        cause(fault, launcher, place, chance)
        if goes_on:
            mistakes += what_stopped(fault, launcher)
            launcher.send_signal(signal.SIGTERM)  # a shell has its background processes ignore SIGINT
        said = ended(launcher, ENDS_S if goes_on else STOPPED_S if fault.endswith("stopped") else NAMED_S)
    if said is None:
        mistakes.append("it has not ended in time")
    elif fault in SAID and not re.search(SAID[fault], said):
        mistakes.append(f"it said {said!r}")
    for node in "ab":
        place.hosts.link(node, "up")
    if left := living(every, ENDS_S):
        mistakes.append(f"left: {left}")
    return mistakes


def what_stopped(fault: str, launcher: "subprocess.Popen[str]") -> list[str]:
    """What is wrong with how it goes on, after a while."""
    rows, seen_s = list[str](), [time.monotonic()]

    def look() -> None:
        assert launcher.stdout is not None
        for row in launcher.stdout:
            rows.append(row)
            seen_s[0] = time.monotonic()

    threading.Thread(target=look, daemon=True).start()
    time.sleep(RESTARTED_S if fault.endswith(RESTARTS) else SEEN_S)
    mistakes = ["the run has ended"] * (launcher.poll() is not None)
    if time.monotonic() - seen_s[0] > LAST_ROW_S:
        mistakes.append(f"no row for {time.monotonic() - seen_s[0]:.0f} s")
    if dropped := [row for row in rows if "{" in row and not fault.endswith(RESTARTS)]:
        mistakes.append(f"dropped: {dropped}")
    return mistakes


def cause(fault: str, launcher: "subprocess.Popen[str]", place: "Place", chance: random.Random) -> None:
    """Cause the fault."""
    node = chance.choice("ab")
    if fault == "launcher killed":
        launcher.kill()
    elif fault == "link down for 5 s":
        place.hosts.cut(node, 5)
    elif fault == "link down":
        place.hosts.link(node, "down")
    elif fault in ("daemons of a node killed", "head killed"):
        assert isinstance(place.cluster, RayHosts)
        os.killpg(place.cluster.daemons["a" if fault == "head killed" else "b"].pid, signal.SIGKILL)
    else:
        module, name = VICTIMS[re.split(" killed| stopped", fault)[0]]
        found = [one for one in place.ours(launcher) if module in one.cmdline() and one.cmdline()[-1].startswith(name)]
        chance.choice(found).send_signal(signal.SIGSTOP if fault.endswith("stopped") else signal.SIGKILL)


class Place:
    """Two hosts, and the command of a launcher that trains over them."""

    def __init__(self, hosts: Hosts, cluster: RayHosts | None = None, more: Sequence[str] = ()) -> None:
        self.hosts, self.cluster, self.more = hosts, cluster, more

    def launched(self, run: Path, *more: str) -> "subprocess.Popen[str]":
        """Start a launcher; on the first host, if Ray starts the supervisors."""
        how = RAY if self.cluster else ",".join((self.hosts.address, *self.hosts.spaces.values()))
        variables = self.cluster.variables if self.cluster else os.environ
        return subprocess.Popen(
            [
                *(self.hosts.prefixes["a"] if self.cluster else ()),
                *(sys.executable, str(HERE / "soak_nodes_launcher.py"), str(run), how, *self.more, *more),
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**variables, "PYTHONPATH": f"{ROOT}:{os.environ.get('PYTHONPATH', '')}"},
        )

    def ours(self, launcher: "subprocess.Popen[str]") -> list[psutil.Process]:
        """The processes that the launcher has started on both hosts, without Ray's."""
        listed = [
            subprocess.run(["ip", "netns", "pids", space], check=True, capture_output=True, text=True, timeout=20)
            for space in self.hosts.spaces.values()
        ]
        pids = {int(pid) for pids in listed for pid in pids.stdout.split()} - {launcher.pid}
        pids |= {child.pid for child in psutil.Process(launcher.pid).children(recursive=True)}
        found = [psutil.Process(pid) for pid in pids if psutil.pid_exists(pid)]
        return [one for one in found if "gmi_drl" in " ".join(one.cmdline())]


@contextmanager
def places(path: Path, kinds: Sequence[str]) -> Iterator[Place]:
    """Make two hosts for these kinds of faults during a `with` block."""
    if kinds is not RAY_FAULTS:
        with two_hosts() as hosts:
            yield Place(hosts, more=["decoupled"] * (kinds is DECOUPLED_FAULTS))
        return
    with TemporaryDirectory(prefix="gmi-", dir="/tmp", ignore_cleanup_errors=True) as ray, ray_hosts(ray) as cluster:
        yield Place(cluster.hosts, cluster)


def await_row(launcher: "subprocess.Popen[str]", *, saved: bool) -> None:
    """Wait until it iterates, and has saved a checkpoint if `saved`."""
    assert launcher.stdout is not None and launcher.stderr is not None
    for _ in range(2 * EVERY if saved else 1):
        if not launcher.stdout.readline():
            raise SystemExit(f"no training has begun: {launcher.stderr.read()}")


def ended(launcher: "subprocess.Popen[str]", within_s: float) -> str | None:
    """The launcher's errors when it has ended; None if it has not in time."""
    try:
        _, said = launcher.communicate(timeout=within_s)
    except subprocess.TimeoutExpired:
        launcher.kill()
        return None
    return said


def living(processes: list[psutil.Process], within_s: float) -> list[str]:
    """The processes that have not ended in time."""
    _, left = psutil.wait_procs(processes, timeout=within_s)
    names = []
    for one in left:
        with suppress(psutil.Error):  # zombies have no command line
            names.append(" ".join(one.cmdline())[:80])
    return names


if __name__ == "__main__":
    sys.exit(main())
