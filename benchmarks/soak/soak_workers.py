"""Soak: random faults in trainings by actor, policy and trainer workers.

    python benchmarks/soak/soak_workers.py --faults 100

Each training is on one host or over two nodes, with inline inference or policy workers, with one policy or two. At a
random moment an actor, a policy worker, a trainer or a process of proxies is killed or stopped. Or the link between
both nodes is cut, for five seconds or for good; or it is slow, 0.5, 5 or 50 ms one way, and stands still for two
seconds. Then the nodes are network namespaces (root is needed). With `fewest_actors` the run must go on without an
actor, or without its node. With a restart, which is for one host, or with `--again` over nodes, another one takes its
place, or that of a policy worker. A link that was cut for five seconds or is slow must not matter: no step is older
than `max_lag` allows. Else the run must end with an error that names who died, or who stands still, within the
deadlines. The run is then resumed for two iterations. Nothing may be left.
"""

import argparse
import os
import random
import re
import signal
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Timer

import psutil
from soak_workers_faults import (
    CUT,
    CUT_S,
    EVERY,
    LINKS,
    MAX_LAG,
    SLOW,
    Fault,
    config_of,
    drawn,
    drawn_again,
    layout_of,
    victims_of,
)

from gmi_drl.benchmarks.cases.common import network_relay
from gmi_drl.errors import GmiError
from gmi_drl.launch.job import resolve
from gmi_drl.launch.nodes.supervisor_starters import SubprocessSupervisors
from gmi_drl.launch.supervisor import Outcome
from gmi_drl.launch.training import train
from gmi_drl.layout.layout import Layout
from gmi_drl.run.folder import RunFolder
from gmi_drl.run.metrics import Row

sys.path.append(str(Path(__file__).parents[2] / "tests" / "launch" / "nodes"))

from networks import Hosts, obstacle, two_hosts

GOES_ON = 30
"""Iterations after which a run has shown that it goes on."""
LATEST = 25
"""The latest iteration of a fault."""
TOO_LONG_S = 300.0
"""Seconds after a fault, far more than any deadline, when a run that still goes on is stopped."""
LEFT_S = 40.0
"""Seconds until no process may be left."""
PAUSE_S = 2.0
ESTABLISHED = "01"
"""The state of a connection in /proc/net/tcp."""
WORKER, PROXY = "gmi_drl.roles.main", "gmi_drl.roles.decoupled.proxy_main"


def processes() -> list[psutil.Process]:
    """The processes of the package that this one has started, but those of a slow network, which outlast a training."""
    lines = {one: " ".join(command_of(one)) for one in psutil.Process().children(recursive=True) if one.is_running()}
    return [one for one, line in lines.items() if "gmi_drl" in line and "network_relay" not in line]


def command_of(process: psutil.Process) -> list[str]:
    """Its command line; empty if it has ended."""
    try:
        return process.cmdline()
    except psutil.Error:
        return []


def strike(fault: Fault, victim: int, hosts: Hosts | None) -> bool:
    """Kill or stop the victim, or cut the link of the far host. Returns False if the victim is not yet there."""
    if hosts is not None:
        if not all(map(is_connected, (gmi.id for gmi in layout_of(fault).devices_on("b")[0].gmis))):
            return False
        if fault.victim in SLOW:
            hosts.pause(PAUSE_S)
        elif fault.victim == CUT:
            hosts.cut("b", CUT_S)
        else:
            hosts.link("b", "down")
        return True
    module = PROXY if fault.victim == "proxies" else WORKER
    for process in processes():
        line = command_of(process)
        if module in line and line[-1].startswith(f"GMI {victim} of"):
            process.send_signal(signal.SIGSTOP if fault.is_stopped else signal.SIGKILL)
            return True
    return False


def is_connected(gmi: int) -> bool:
    """Whether a worker has a connection."""
    for process in processes():
        line = command_of(process)
        if WORKER in line and line[-1].startswith(f"GMI {gmi} of"):
            table = Path(f"/proc/{process.pid}/net/tcp").read_text().splitlines()[1:]  # of its own namespace
            joined = {f"socket:[{line.split()[9]}]" for line in table if line.split()[3] == ESTABLISHED}
            with suppress(OSError):  # it closes one, or has ended
                return any(os.readlink(file) in joined for file in Path(f"/proc/{process.pid}/fd").iterdir())
    return False


def expected(fault: Fault, layout: Layout, victim: int) -> str:
    """A pattern of the error's first line."""
    if fault.victim in LINKS:
        return r"\bnode b\b"
    if not fault.is_stopped:
        of = rf"the proxy of GMIs? {victim}\b" if fault.victim == "proxies" else rf"GMI {victim}\b"
        return rf"^{of}.* was killed by SIGKILL"
    ids = [gmi.id for gmi in layout.devices_on("b")[0].gmis] if fault.victim == "proxies" else [victim]
    own = "|".join(map(str, ids))
    return rf"\bGMIs? ({own})\b[^:]*(lives but|has not|was stopped|has held)"


@contextmanager
def hosts_of(fault: Fault) -> Iterator[Hosts | None]:
    """Two hosts, if a link between them is the victim; it is slow if that is the fault."""
    if fault.victim not in LINKS:
        yield None
        return
    with two_hosts() as hosts, hosts.slowed(SLOW[fault.victim]) if fault.victim in SLOW else nullcontext():
        yield hosts


def one(fault: Fault, path: Path, chance: random.Random, hosts: Hosts | None) -> list[str]:
    """Run a training with a fault, and resume it. Returns what was not as promised."""
    layout, mistakes, told = layout_of(fault), list[str](), list[str]()
    victim, at = chance.choice(victims_of(fault, layout)), chance.randint(EVERY + 1, LATEST)
    struck, lags = list[int](), list[float]()
    too_long = Timer(TOO_LONG_S, os.kill, (os.getpid(), signal.SIGTERM))

    def on_row(row: Row) -> None:
        lags.extend(of["lag_max"] for of in (row.get("policies") or {"": row}).values() if "lag_max" in of)
        if not struck and row["iteration"] >= at and strike(fault, victim, hosts):
            struck.append(row["iteration"])
            too_long.start()
        if struck and (fault.goes_on or fault.restarts) and row["iteration"] == struck[0] + GOES_ON:
            os.kill(os.getpid(), signal.SIGTERM)

    folder = RunFolder(path / "run")
    folder.create()
    try:
        outcome = trained(fault, folder, 10**6, told.append, hosts, on_row=on_row, restarts=fault.restarts)
    except GmiError as error:
        first = str(error).splitlines()[0]
        if fault.goes_on:
            mistakes.append(f"GMI {victim}: it ended: {first}")
        elif not re.search(expected(fault, layout, victim), first):
            mistakes.append(f"GMI {victim} at {struck}: it said {first!r}")
    else:
        if not fault.goes_on and not (fault.restarts and told):
            mistakes.append(f"GMI {victim}: it went on to {outcome.iteration}")
    finally:
        too_long.cancel()
    if max(lags, default=0) > MAX_LAG:
        mistakes.append(f"a step was {max(lags):g} versions old, {MAX_LAG} are allowed")
    mistakes += living()
    if hosts is not None:
        hosts.link("b", "up")
    saved = folder.resumable()
    if not saved:
        return [*mistakes, "nothing was saved"]
    try:
        outcome = trained(fault, folder, int(saved[-1].name) + 2, told.append, hosts, resume=saved[-1])
    except GmiError as error:
        return [*mistakes, f"it was not resumed: {error}", *living()]
    return mistakes + ["the resumed run is not done"] * (outcome.state != "done") + living()


def trained(
    fault: Fault,
    folder: RunFolder,
    iterations: int,
    tell: Callable[[str], None],
    hosts: Hosts | None = None,
    **more: object,
) -> Outcome:
    """Train in a folder, on `hosts` if there are some."""
    starter = hosts or (SubprocessSupervisors() if fault.far else None)
    job = resolve(layout_of(fault), config_of(fault, iterations), folder)
    return train(job, supervisors=starter, on_restart=tell, on_warning=tell, **more)


def living() -> list[str]:
    """What is left of the processes."""
    _, left = psutil.wait_procs(processes(), timeout=LEFT_S)
    return [f"left: {' '.join(command_of(process))[:80]}" for process in left]


def main() -> int:
    """Run all faults. Returns 1 if something was not as promised."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--faults", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--links", action="store_true", help="cut, slow or pause links, and nothing else")
    parser.add_argument("--again", action="store_true", help="kill over nodes who is started again, and nothing else")
    given = parser.parse_args()
    why = obstacle() or network_relay.obstacle()
    if why and given.links:
        parser.error(f"links cannot be cut or slowed here: {why}")
    warnings.simplefilter("ignore")
    chance, wrong = random.Random(given.seed), 0
    with TemporaryDirectory(prefix="gmi-claims-", dir="/tmp") as claims:
        os.environ["GMI_DRL_CLAIMS"] = claims  # ignore claims of other programs
        for number in range(1, given.faults + 1):
            began = time.monotonic()
            fault = drawn_again(chance) if given.again else drawn(chance, links=why is None, only_links=given.links)
            with TemporaryDirectory(prefix="gmi-soak-", dir="/tmp") as path, hosts_of(fault) as hosts:
                mistakes = one(fault, Path(path), chance, hosts)
            wrong += bool(mistakes)
            took = f"{time.monotonic() - began:.0f} s"
            print(f"{number}: {fault}: {'; '.join(mistakes) or 'as promised'} ({took})", flush=True)
    print(f"{given.faults} faults, {wrong} not as promised")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
