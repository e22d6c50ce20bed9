"""Soak: signals to all processes of a run, and deaths at awkward moments, with real commands on this host.

    python benchmarks/soak/soak_signals.py --faults 200
    python benchmarks/soak/soak_signals.py --faults 200 --jobs 2 --seed 1
    python benchmarks/soak/soak_signals.py --only 17 --seed 1       # that fault alone

A training or a service is disturbed while it starts, runs, restarts after a death, resumes or ends: a signal is sent to
the launcher, to all processes at once (as systemd and `scancel --full` do) or to the GMIs alone; a second one follows;
a GMI, the reaper or the launcher is killed. Each run must end in time with the promised exit code, print no traceback,
leave no process behind, and be resumable from its checkpoint. Faults are drawn from a seed: each template meets each
possible moment and event.
"""

import argparse
import json
import random
import re
import shutil
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from signal import SIG_DFL, SIGHUP, SIGINT, SIGKILL, SIGTERM, Signals, signal
from tempfile import TemporaryDirectory

from soak_signals_runs import (
    FOREVER,
    SERVING,
    STARTS_S,
    TRAINING,
    Place,
    Running,
    kill,
    prepared,
    resumed,
    send,
    started,
    trained,
)

ENDS_S, GONE_S = 120.0, 30.0
"""Deadlines on a busy machine: until the launcher has ended, until nothing is left."""
STARTING, RUNNING, RESTARTING, RESUMING, ENDING, LAST = MOMENTS = (
    "starting",
    "running",
    "restarting",
    "resuming",
    "ending",
    "last iterations",
)
TO_LAUNCHER, TO_ALL, TWICE, TO_GMIS, GMI_KILLED, GUARD_KILLED, LAUNCHER_KILLED = EVENTS = (
    "signal to the launcher",
    "signal to all",
    "two signals",
    "SIGTERM to all GMIs",
    "a GMI killed",
    "the guard killed",
    "the launcher killed",
)
ENDS_RUN = (TO_LAUNCHER, TO_ALL, TWICE)
"""Events after which a run ends by a signal."""


@dataclass(frozen=True)
class Fault:
    """An event, its target and its moment. `delay` says when within the moment, from 0 to 1."""

    number: int
    template: str
    moment: str
    event: str
    signal: Signals
    restarts: int
    delay: float

    def __str__(self) -> str:
        sent = f" {self.signal.name}" if self.event in ENDS_RUN else ""
        again = f", {self.restarts} restarts" if self.restarts else ""
        return f"{self.template}, {self.moment} at {self.delay:.2f}: {self.event}{sent}{again}"


def main() -> int:
    """Run all faults. Returns 1 if one ended differently than promised."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--faults", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=1, help="so many faults at once, each with claims of its own")
    parser.add_argument("--only", type=int, nargs="+", metavar="NUMBER", help="some of them")
    given = parser.parse_args()
    signal(SIGHUP, SIG_DFL)  # `nohup` ignores it, and launchers would inherit that
    faults = drawn(given.faults, given.seed)
    if given.only:
        faults = [fault for fault in faults if fault.number in given.only]
    wrong, kinds = list[str](), Counter[str]()
    with TemporaryDirectory(prefix="gmi-soak-", dir="/tmp") as path, ThreadPoolExecutor(given.jobs) as pool:
        place = prepared(Path(path))
        for fault, mistakes in zip(faults, pool.map(lambda fault: one(fault, place), faults), strict=True):
            print(f"{fault.number}: {fault}: {'; '.join(mistakes) or 'as promised'}", flush=True)
            kinds[f"{fault.moment}"] += 1
            wrong += [f"{fault.number} ({mistake})" for mistake in mistakes]
    print(f"{len(faults)} faults, wrong: {wrong or 'none'}; by moment: {dict(kinds)}")
    return 1 if wrong else 0


def drawn(count: int, seed: int) -> list[Fault]:
    """Draw a number of faults, each kind once before any comes again."""
    chance, faults = random.Random(seed), list[Fault]()
    while len(faults) < count:
        kinds = [kind for kind in product((*TRAINING, *SERVING), MOMENTS, EVENTS) if is_possible(*kind)]
        chance.shuffle(kinds)
        for template, moment, event in kinds[: count - len(faults)]:
            number, sent = chance.choice((SIGINT, SIGTERM, SIGTERM, SIGHUP)), chance.random()
            restarts = 2 if moment == RESTARTING else chance.choice((0, 0, 2)) if template in TRAINING else 0
            faults.append(Fault(len(faults) + 1, template, moment, event, number, restarts, sent))
    return faults


def is_possible(template: str, moment: str, event: str) -> bool:
    """Whether the fault is possible: services neither restart nor resume."""
    return template in TRAINING or moment in (STARTING, RUNNING, ENDING)


def one(fault: Fault, place: Place) -> list[str]:
    """Run a command with one fault. Returns what was wrong."""
    run = place.folder / f"run-{fault.number}"
    if fault.moment == RESUMING:
        shutil.copytree(place.run_of(fault.template), run)
    with started(place, command(fault, place, run)) as running:
        rows = run / "metrics.jsonl"
        has_begun = at_moment(fault, place, running, rows)
        already_ended = running.process.poll() is not None
        goes_on = disturb(fault, running) and not already_ended
        mistakes = what_stopped(fault, running, rows) if goes_on else []
        running.wait(ENDS_S)
        mistakes += how_it_ended(fault, running, has_begun=has_begun, goes_on=goes_on)
        mistakes += running.left(GONE_S)
    if fault.template in TRAINING:
        mistakes += what_is_kept(fault, place, run, running)
    shutil.rmtree(run, ignore_errors=True)
    return mistakes


def command(fault: Fault, place: Place, run: Path) -> list[str]:
    """The command that runs while the fault happens."""
    if fault.template in SERVING:
        return ["serve", str(place.run_of(fault.template)), SERVING[fault.template], "--steps", str(FOREVER)]
    if fault.moment == RESUMING:
        return resumed(run, FOREVER, fault.restarts)
    iterations = 12 if fault.moment == LAST else FOREVER
    return trained(fault.template, run, iterations=iterations, restarts=fault.restarts)


def at_moment(fault: Fault, place: Place, running: Running, rows: Path) -> bool:
    """Wait for the moment. Returns whether the run had reported before."""
    start_s = place.start_s[fault.template if fault.template in TRAINING else "TCG_EX"]
    if fault.moment in (STARTING, RESUMING):
        time.sleep(fault.delay * start_s)
        return False
    if fault.template in SERVING:
        running.wait_for(lambda: "Serving" in running.said(), STARTS_S)
    else:
        fewest = 11 if fault.moment == LAST else 4
        running.wait_for(lambda: rows.exists() and rows.read_bytes().count(b"\n") >= fewest, STARTS_S)
    time.sleep(fault.delay * (1.0 if fault.moment == LAST else 2.0))
    if fault.moment == RESTARTING:
        kill(random.Random(fault.number), running.named("GMI "))
        time.sleep(fault.delay * start_s)
    elif fault.moment == ENDING:
        running.process.send_signal(SIGTERM)
        time.sleep(fault.delay)
    return True


def disturb(fault: Fault, running: Running) -> bool:
    """Cause the event. Returns whether the run should go on."""
    chance = random.Random(fault.number)
    match fault.event:
        case "signal to the launcher":
            running.process.send_signal(fault.signal)
        case "two signals":
            running.process.send_signal(fault.signal)
            time.sleep(chance.uniform(0, 1))
            running.process.send_signal(chance.choice((SIGINT, SIGTERM)))
        case "signal to all":
            everyone = running.processes()
            chance.shuffle(everyone)
            send(fault.signal, everyone)
        case "SIGTERM to all GMIs":
            send(SIGTERM, running.named("GMI "))
        case "a GMI killed":
            running.wait_for(lambda: bool(running.named("GMI ")), STARTS_S)
            kill(chance, running.named("GMI "))
        case "the guard killed":
            kill(chance, running.named("reaper.py"))
        case "the launcher killed":
            running.process.kill()
    if fault.moment in (ENDING, LAST):
        return False
    return fault.event in (TO_GMIS, GUARD_KILLED) or (fault.event == GMI_KILLED and fault.restarts > 0)


def what_stopped(fault: Fault, running: Running, rows: Path) -> list[str]:
    """What is wrong with a run that should go on. It is ended by SIGTERM afterwards."""

    def count() -> int:
        return rows.read_bytes().count(b"\n") if rows.exists() else 0

    if fault.template in SERVING:
        running.wait_for(lambda: "Serving" in running.said(), STARTS_S)
        time.sleep(1.0)
    else:
        before = count()
        running.wait_for(lambda: count() < before, 2.0)  # a restart drops rows after its checkpoint
        before = count()
        running.wait_for(lambda: count() >= before + 3, STARTS_S)
    if running.process.poll() is not None:
        may_end = fault.event == GMI_KILLED and fault.moment in (STARTING, RESUMING)  # before it has a checkpoint
        return [] if may_end else [f"it has ended: {running.said()[-300:]}"]
    mistakes = []
    guards = 2 if fault.template in SERVING else 1  # its temporary folder has one, too
    if fault.event == GUARD_KILLED and fault.moment == RUNNING and len(running.named("reaper.py")) < guards:
        mistakes.append("no other guard was started")
    running.process.send_signal(SIGTERM)
    return mistakes


def how_it_ended(fault: Fault, running: Running, *, has_begun: bool, goes_on: bool) -> list[str]:
    """What is wrong with exit code and output."""
    said, code = running.said(), running.process.returncode
    if code is None:
        return [f"it has not ended within {ENDS_S:.0f} s: {said[-300:]}"]
    mistakes = [f"it printed {said[-600:]!r}"] if re.search("unexpected|Traceback", said) else []
    if code < 0:
        code = 128 - code  # as a shell reports it
    if code not in (allowed := allowed_codes(fault, goes_on=goes_on)):
        mistakes.append(f"exit code {code}, not {sorted(allowed)}: {said[-300:]!r}")
    is_plain = has_begun and fault.moment == RUNNING and fault.event in (TO_LAUNCHER, TO_ALL)
    if is_plain and fault.template in TRAINING and "saved" not in said:
        mistakes.append(f"no checkpoint was told: {said[-300:]!r}")
    if code == 1 and "GMI" not in said:
        mistakes.append(f"nobody is named: {said[-300:]!r}")
    return mistakes


def allowed_codes(fault: Fault, *, goes_on: bool) -> set[int]:
    """The promised exit codes."""
    first = SIGTERM if fault.moment == ENDING else fault.signal
    done = {0} if fault.moment == LAST else set[int]()
    if fault.event == LAUNCHER_KILLED:
        return {128 + SIGKILL, *done, *({128 + SIGTERM} if fault.moment == ENDING else ())}
    if fault.event in ENDS_RUN:
        return {128 + first, *done}
    if fault.event == GMI_KILLED:
        ended = {1} if not fault.restarts or fault.moment in (STARTING, RESUMING, ENDING, RESTARTING, LAST) else set()
        return {*ended, *done, *({128 + SIGTERM} if goes_on or fault.moment == ENDING else ())}
    return {128 + SIGTERM, *done} if fault.moment != LAST else {0}


def what_is_kept(fault: Fault, place: Place, run: Path, running: Running) -> list[str]:
    """What is wrong with the run's folder: its state, or that the run cannot be resumed."""
    saved = sorted((run / "checkpoints").glob("[0-9]*")) if run.exists() else []
    state_file, mistakes = run / "state.json", list[str]()
    if state_file.exists() and fault.event != LAUNCHER_KILLED:
        state = json.loads(state_file.read_text())["state"]
        if state == "running":
            mistakes.append("its state says that it runs")
    if not saved:
        return mistakes
    with started(place, resumed(run, int(saved[-1].name) + 2)) as again:
        said = again.wait(STARTS_S)
    if again.process.returncode:
        mistakes.append(f"it did not go on ({again.process.returncode}): {said[-300:]!r}")
    return mistakes


if __name__ == "__main__":
    sys.exit(main())
