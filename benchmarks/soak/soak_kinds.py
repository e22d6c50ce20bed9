"""Soak: faults while images are trained from, memories act asynchronously, and images are served to files.

    python benchmarks/soak/soak_kinds.py --faults 20
    python benchmarks/soak/soak_kinds.py --faults 20 --only 3 7

A GMI is killed, or stopped so that it hangs, at a random moment of a training from images, and of an asynchronous one
whose agents have memories; a restarted agent begins with empty ones. Only deaths restart a GMI: a hang ends the run.
The disk fills while a service writes images. Each command must end, or go on where it restarts, as promised, print no
traceback, leave no process behind, and be resumable from its checkpoint; files on a full disk must be whole. Faults are
drawn from a seed. Needs root, to mount a small disk.
"""

import argparse
import random
import re
import shutil
import sys
import time
from collections import Counter
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from signal import SIGKILL, SIGSTOP, SIGTERM
from tempfile import TemporaryDirectory

from soak_signals_runs import FOREVER, STARTS_S, Place, Running, resumed, send, started
from soak_troubles_causes import small_disk

HANG_S = 20
ENDS_S, GONE_S = 150.0, 30.0
DISK_BYTES = 2**30
SETTINGS = ("--set", "checkpoint_every=3", "--set", f"hang_s={HANG_S}")
IMAGES, MEMORIES = "images", "memories, asynchronous"
TRAINING = {
    IMAGES: (
        *("--task", "envpool:Pong-v5", "--num-env", "4", "--gmis-per-gpu", "2", "--set", "learner.horizon=8"),
        *("--set", "learner.conv=[[4, 8, 8]]", "--set", "learner.features=16"),
    ),
    MEMORIES: (
        *("memories.yaml", "--set", "learner.memory=lstm", "--set", "learner.memory_size=8"),
        *("--set", "learner.hidden=[16]", "--set", "learner.minibatches=2"),
    ),
}
SERVED = "images to files"
SERVED_STEPS = "7000"
"""Of each of four environments: 790 MB, which the disk has room for."""
KILLED, STOPPED, FULL = EVENTS = ("a GMI killed", "a GMI stopped", "the disk full")
GMI = "{{id: {id}, roles: [{roles}], num_env: {num_env}, cores: [0]}}"
LAYOUTS = {
    "memories": ("ant", "decoupled", [("trainer", 0), ("simulator, agent", 4), ("simulator, agent", 4)], [0]),
    "served": ("envpool:Pong-v5", "TCG", [("simulator, agent", 4)], []),
}
"""By file: task, template, roles and environments of the GMIs of one core, trainers."""


@dataclass(frozen=True)
class Fault:
    """An event, its target and its moment. `delay` says when, in seconds after the first rows; `restarts` how many."""

    number: int
    kind: str
    event: str
    restarts: int
    delay: float

    def __str__(self) -> str:
        again = f", {self.restarts} restarts" if self.restarts else ""
        return f"{self.kind} at {self.delay:.2f}: {self.event}{again}"


def main() -> int:
    """Run all faults. Returns 1 if one ended differently than promised."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--faults", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", type=int, nargs="+", metavar="NUMBER", help="some of them")
    given = parser.parse_args()
    faults = [fault for fault in drawn(given.faults, given.seed) if not given.only or fault.number in given.only]
    wrong, events = list[str](), Counter[str]()
    with TemporaryDirectory(prefix="gmi-soak-", dir="/tmp") as path:
        place = prepared(Path(path), {fault.kind for fault in faults})
        for fault in faults:
            mistakes = (on_full_disk if fault.event == FULL else in_training)(fault, place)
            print(f"{fault.number}: {fault}: {'; '.join(mistakes) or 'as promised'}", flush=True)
            events[fault.event] += 1
            wrong += [f"{fault.number} ({mistake})" for mistake in mistakes]
    print(f"{len(faults)} faults, wrong: {wrong or 'none'}; by event: {dict(events)}")
    return 1 if wrong else 0


def drawn(count: int, seed: int) -> list[Fault]:
    """Draw a number of faults, each kind once before any comes again."""
    chance, faults = random.Random(seed), list[Fault]()
    while len(faults) < count:
        kinds = [*product(TRAINING, (KILLED, STOPPED), (0, 2)), (SERVED, FULL, 0)]
        chance.shuffle(kinds)
        for kind, event, restarts in kinds[: count - len(faults)]:
            faults.append(Fault(len(faults) + 1, kind, event, restarts, chance.uniform(0, 3)))
    return faults


def prepared(folder: Path, kinds: set[str]) -> Place:
    """Write layouts into a folder, and a short run of images where one is served."""
    place = Place(folder)
    for name, (task, template, gmis, trainers) in LAYOUTS.items():
        listed = ", ".join(GMI.format(id=n, roles=of, num_env=count) for n, (of, count) in enumerate(gmis))
        lines = ["version: 2", f"task: {task}", f"template: {template}", "share_cores: true"]
        lines += [f"devices: [{{kind: cpu, index: 0, gmis: [{listed}]}}]"]
        lines += [f"groups: {{trainers: {{members: {trainers}, reduction: none}}}}", "channels: {}"] if trainers else []
        (folder / f"{name}.yaml").write_text("\n".join(lines) + "\n")
    if SERVED in kinds:
        with started(place, trained(IMAGES, folder / "short", iterations=2)) as run:
            said = run.wait(STARTS_S)
        if run.process.returncode:
            raise SystemExit(f"no training from images: {said}")
    return place


def trained(kind: str, run: Path, *, iterations: int = FOREVER, restarts: int = 0) -> list[str]:
    """The command of a training."""
    what = [*TRAINING[kind], *SETTINGS, "--run-dir", str(run), "--restarts", str(restarts)]
    return ["train", *what, "--iterations", str(iterations)]


def in_training(fault: Fault, place: Place) -> list[str]:
    """Train with one fault. Returns what was wrong."""
    run = place.folder / f"run-{fault.number}"
    rows, chance = run / "metrics.jsonl", random.Random(fault.number)
    with started(place, trained(fault.kind, run, restarts=fault.restarts)) as running:
        if not running.wait_for(lambda: count(rows) >= 5, STARTS_S):
            return [f"it has not begun: {running.said()[-300:]}"]
        time.sleep(fault.delay)
        gmis = sorted(running.named("GMI "), key=lambda process: process.pid)
        victim = chance.choice(gmis[1:] if fault.kind == MEMORIES else gmis)  # an agent: the trainer has no memory
        send(SIGKILL if fault.event == KILLED else SIGSTOP, [victim])
        lasts = fault.event == KILLED and fault.restarts > 0  # it does not restart after a hang
        mistakes = goes_on(fault, running, rows) if lasts else []
        said = running.wait(ENDS_S)  # several times HANG_S if the launcher itself must notice
        mistakes += how_it_ended(running, {128 + SIGTERM} if lasts else {1}) + running.left(GONE_S)
    if "GMI" not in said:
        mistakes.append(f"nobody is named: {said[-300:]!r}")
    mistakes += what_resumes(place, run)
    shutil.rmtree(run, ignore_errors=True)
    return mistakes


def goes_on(fault: Fault, running: Running, rows: Path) -> list[str]:
    """What is wrong with a run that should go on. It is ended by SIGTERM afterwards."""
    restarted = running.wait_for(lambda: "estart" in running.said(), STARTS_S)
    before = count(rows)
    grew = running.wait_for(lambda: count(rows) >= before + 3, STARTS_S)
    running.process.send_signal(SIGTERM)
    return [] if grew and restarted else [f"it did not go on: {running.said()[-300:]!r}"]


def count(rows: Path) -> int:
    """Rows so far."""
    return rows.read_bytes().count(b"\n") if rows.exists() else 0


def how_it_ended(running: Running, allowed: set[int]) -> list[str]:
    """What is wrong with exit code and output."""
    said, code = running.said(), running.process.returncode
    if code is None:
        return [f"it has not ended within {ENDS_S:.0f} s: {said[-300:]!r}"]
    mistakes = [f"it printed {said[-600:]!r}"] if re.search("unexpected|Traceback", said) else []
    code = 128 - code if code < 0 else code  # as a shell reports it
    return mistakes if code in allowed else [*mistakes, f"exit code {code}, not {sorted(allowed)}: {said[-300:]!r}"]


def what_resumes(place: Place, run: Path) -> list[str]:
    """What is wrong with resuming a run, if it has a checkpoint."""
    if not (saved := sorted((run / "checkpoints").glob("[0-9]*"))):
        return ["it has no checkpoint"]
    with started(place, resumed(run, int(saved[-1].name) + 2)) as again:
        said = again.wait(STARTS_S)
    return [f"it did not resume ({again.process.returncode}): {said[-300:]!r}"] if again.process.returncode else []


def on_full_disk(fault: Fault, place: Place) -> list[str]:
    """Serve images to files on a disk that fills. Returns what was wrong."""
    from gmi_drl.replay import ExperienceDataset

    with small_disk(place.folder / f"disk-{fault.number}", DISK_BYTES) as disk:
        written = disk / "experience"
        into = ["--experience", str(written), "--steps", SERVED_STEPS]
        with started(place, ["serve", str(place.folder / "short"), "served.yaml", *into]) as running:
            running.wait_for(lambda: any(written.glob("[!.]*")), STARTS_S)  # a whole shard
            time.sleep(fault.delay)
            fill(disk, leave=random.Random(fault.number).randrange(4 << 20))
            running.wait(ENDS_S)
            mistakes = how_it_ended(running, {4}) + running.left(GONE_S)
        if "No space left" not in running.said():
            mistakes.append(f"the reason is not told: {running.said()[-300:]!r}")
        read = ExperienceDataset(written)
        if read.index.state != "failed" or not 0 < len(read) == sum(block.valid.sum() for block in read.blocks(0)):
            mistakes.append(f"its files are {read.index.state}, with {len(read)} steps")
        return mistakes


def fill(disk: Path, leave: int) -> None:
    """Fill a disk until so many bytes are free."""
    with (disk / "filler").open("wb") as file:
        while (free := shutil.disk_usage(disk).free) > leave:
            file.write(bytes(min(1 << 20, free - leave)))
            file.flush()


if __name__ == "__main__":
    sys.exit(main())
