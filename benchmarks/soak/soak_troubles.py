"""Soak: what happens to machines and files while a training runs, with real commands on this host. As root.

    apt install faketime gcc
    python benchmarks/soak/soak_troubles.py run --faults 300 -o troubles.jsonl          # goes on where it was stopped
    python benchmarks/soak/soak_troubles.py run --faults 300 -o again.jsonl --only 17   # that fault alone
    python benchmarks/soak/soak_troubles.py tell troubles.jsonl

A GMI is killed or stopped, a disk fills, memory runs out, the clock jumps, the terminal is closed, the newest
checkpoint or the rows are damaged: in each template, at a random moment. Each run must end within 10 s of its deadline
with a promised exit code, print no traceback, and leave no process and no temporary file. Then the cause is mended and
the run is resumed: it must reach its last iteration, and where training is repeatable with the checkpoint of a run
that nothing has disturbed.
"""

import argparse
import json
import os
import random
import re
import shutil
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path
from signal import SIG_DFL, SIGHUP, SIGSTOP, SIGTERM, signal
from tempfile import TemporaryDirectory

from soak_signals_runs import LAYOUTS, SETTINGS, STARTS_S, TRAINING, Place, Running, kill, resumed, send, with_layouts
from soak_signals_runs import started as started_command
from soak_troubles_causes import (
    LIBFAKETIME,
    closer,
    fill,
    no_more_memory,
    nothing,
    other_clock,
    small_disk,
    terminal,
)

ITERATIONS = 40
HANG_S, LATE_S, GONE_S = 15.0, 10.0, 30.0
"""Seconds: after which a silent GMI is named, that a run may end later than its deadline, until nothing is left."""

FIRST_HAND, LONGEST_WAIT = 1, 4
"""Multiples of `hang_s` until somebody names a silent GMI: the next one to it, and at most the launcher."""

DISK_BYTES = 96 * 2**20
HOUR_S = 3600

KILLED, STOPPED, DISK, MEMORY, CLOCK, TERMINAL, CHECKPOINT, ROWS = TROUBLES = (
    "a GMI is killed",
    "a GMI is stopped",
    "the disk fills",
    "a GMI gets no more memory",
    "the clock jumps",
    "the terminal is closed",
    "the newest checkpoint is damaged",
    "the rows are cut",
)

REPEATABLE = ("TCG_EX", "TDG_EX")
"""Templates whose trainings end with the same checkpoint, however often they were interrupted."""

SMALL_SAC = (
    "--set",
    "learner.hidden=[32]",
    "--set",
    "learner.batch=32",
    "--set",
    "learner.replay.size=4000",
    "--set",
    "learner.replay.min_size=200",
)
WORKERS = ("workers", [("simulator", 8), ("agent", 0), ("trainer", 0)], [2], "max_lag: 1}\nstreams: {")
TRAINING |= {
    "workers": ("workers.yaml", "--set", "learner.hidden=[64]"),
    "sac": ("--task", "ant", "--num-env", "8", "--gmis-per-gpu", "2", "--algo", "sac", *SMALL_SAC),
}
LAYOUTS["workers"] = WORKERS


@dataclass(frozen=True)
class Fault:
    """A trouble, the template that meets it, and its moment in seconds after the fourth row."""

    number: int
    template: str
    trouble: str
    delay_s: float


@dataclass(frozen=True)
class Promise:
    """What must follow a trouble: exit codes, and within how many seconds the run ends. None: it goes on."""

    codes: frozenset[int]
    within_s: float | None


PROMISES = {
    KILLED: Promise(frozenset({1}), 0.0),
    STOPPED: Promise(frozenset({1}), LONGEST_WAIT * HANG_S),
    DISK: Promise(frozenset({4}), None),  # when it next writes
    MEMORY: Promise(frozenset({0, 1, 4}), None),  # a GMI that asks for none goes on
    CLOCK: Promise(frozenset({0}), None),
    TERMINAL: Promise(frozenset({128 + SIGHUP}), HANG_S),
    CHECKPOINT: Promise(frozenset({128 + SIGTERM}), HANG_S),
    ROWS: Promise(frozenset({128 + SIGTERM}), HANG_S),
}


def main() -> int:
    """Run the faults that are not in the file yet, or tell of those that are. Returns 1 if one ended otherwise."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    running = commands.add_parser("run")
    running.add_argument("--faults", type=int, default=300)
    running.add_argument("--seed", type=int, default=0)
    running.add_argument("--only", type=int, nargs="+", metavar="NUMBER", help="some of them")
    running.add_argument("-o", "--output", type=Path, required=True, help="a line for each fault")
    commands.add_parser("tell").add_argument("output", type=Path)
    given = parser.parse_args()
    if given.command == "run":
        if not LIBFAKETIME.is_file() or not shutil.which("cc") or os.geteuid():
            parser.error("this needs root, for a small disk, libfaketime and a C compiler: apt install faketime gcc")
        signal(SIGHUP, SIG_DFL)  # `nohup` ignores it, and launchers would inherit that
        known = {line["number"] for line in read(given.output)}
        faults = [fault for fault in drawn(given.faults, given.seed) if fault.number not in known]
        run_all([fault for fault in faults if given.only is None or fault.number in given.only], given.output)
    return tell(read(given.output))


def drawn(count: int, seed: int) -> list[Fault]:
    """Draw a number of faults, each kind once before any comes again."""
    chance, faults = random.Random(seed), list[Fault]()
    while len(faults) < count:
        kinds = list(product(TRAINING, TROUBLES))
        chance.shuffle(kinds)
        for template, trouble in kinds[: count - len(faults)]:
            faults.append(Fault(len(faults) + 1, template, trouble, round(chance.uniform(0, 1.5), 2)))
    return faults


def run_all(faults: list[Fault], output: Path) -> None:
    """Run faults one after the other. Each adds a line to the file when it has ended."""
    with TemporaryDirectory(prefix="gmi-soak-", dir="/tmp") as path:
        place = with_layouts(Path(path))
        whole = {template: undisturbed(place, template) for template in REPEATABLE}
        for fault in faults:
            mistakes = one(fault, place, whole.get(fault.template))
            with output.open("a") as file:
                file.write(json.dumps({**asdict(fault), "mistakes": mistakes}) + "\n")
            what = "; ".join(mistakes) or "as promised"
            print(f"{fault.number}: {fault.template}: {fault.trouble} at {fault.delay_s}: {what}", flush=True)


def read(file: Path) -> list[dict]:
    """The lines of a file of results; none if it is not there."""
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def tell(lines: list[dict]) -> int:
    """Print how many ended as promised, by trouble. Returns 1 if one did not."""
    for trouble in TROUBLES:
        of = [line for line in lines if line["trouble"] == trouble]
        good = sum(not line["mistakes"] for line in of)
        print(f"{trouble}: {good} of {len(of)} as promised, by {dict(Counter(line['template'] for line in of))}")
    wrong = [line for line in lines if line["mistakes"]]
    for line in wrong:
        print(f"{line['number']}: {line['template']}: {line['trouble']} at {line['delay_s']}: {line['mistakes']}")
    return 1 if wrong else 0


def one(fault: Fault, place: Place, whole: dict[str, str] | None) -> list[str]:
    """Train with one trouble, and resume. Returns what was wrong.

    Args:
        fault: What happens.
        place: Of the layouts.
        whole: The digests of an undisturbed run's last checkpoint; None if training is not repeatable.
    """
    folder = place.folder / f"fault-{fault.number}"
    temporary = folder / "tmp"
    temporary.mkdir(parents=True)
    clock = folder / "clock"
    variables = {"TMPDIR": str(temporary)} | (other_clock(clock) if fault.trouble == CLOCK else {})
    disk = small_disk(folder / "disk", DISK_BYTES) if fault.trouble == DISK else nothing(folder / "disk")
    with disk as where:
        run = where / "run"
        with (
            terminal(wanted=fault.trouble == TERMINAL) as (ours, theirs),
            started_command(place, command(fault.template, run), variables, theirs) as running,
        ):
            mistakes = meet(fault, running, run, clock, closer(ours, theirs))
            mistakes += what_is_left(running, temporary)
        (where / "filler").unlink(missing_ok=True)
        damage(fault, run)
        mistakes += goes_on(fault, place, run, whole)
    shutil.rmtree(folder, ignore_errors=True)
    return mistakes


def command(template: str, run: Path) -> list[str]:
    """The command of a training."""
    more = ["--set", f"hang_s={HANG_S}", "--run-dir", str(run), "--iterations", str(ITERATIONS)]
    return ["train", *TRAINING[template], *SETTINGS[:2], *more]


def undisturbed(place: Place, template: str) -> dict[str, str]:
    """Digests of the last checkpoint of a run that nothing disturbs."""
    run = place.folder / f"whole-{template}"
    with started_command(place, command(template, run)) as running:
        said = running.wait(STARTS_S)
    if running.process.returncode:
        raise SystemExit(f"no training by {template}: {said}")
    return digests(run)


def digests(run: Path) -> dict[str, str]:
    """Those of the parts of a run's newest checkpoint."""
    newest = max((run / "checkpoints").glob("[0-9]*"))
    return dict(json.loads((newest / "checkpoint.json").read_text())["parts"])


def meet(fault: Fault, running: Running, run: Path, clock: Path, close: Callable[[], None]) -> list[str]:
    """Wait for the moment, cause the trouble, and wait for the end. Returns what was wrong."""
    rows, promise = run / "metrics.jsonl", PROMISES[fault.trouble]
    if not running.wait_for(lambda: rows.exists() and rows.read_bytes().count(b"\n") >= 4, STARTS_S):
        return [f"it has not begun: {running.said()[-300:]!r}"]
    time.sleep(fault.delay_s)
    if running.process.poll() is not None:
        return [] if running.process.returncode == 0 else [f"it ended before: {running.said()[-300:]!r}"]
    chance, gmis = random.Random(fault.number), running.named("GMI ")
    match fault.trouble:
        case "a GMI is killed":
            kill(chance, gmis)
        case "a GMI is stopped":
            send(SIGSTOP, [chance.choice(gmis)])
        case "the disk fills":
            fill(run.parent / "filler")
        case "a GMI gets no more memory":
            no_more_memory(chance.choice(gmis))
        case "the clock jumps":
            clock.write_text(f"{chance.choice((-HOUR_S, HOUR_S)):+d}")
        case "the terminal is closed":
            close()
        case _:
            running.process.send_signal(SIGTERM)
    began, allowed_s = time.monotonic(), STARTS_S if promise.within_s is None else promise.within_s + LATE_S
    said, code = running.wait(allowed_s), running.process.returncode
    if code is None:
        return [f"it has not ended within {allowed_s:.0f} s: {said[-300:]!r}"]
    # "unexpected pos" is what torch says of a file for which memory was lacking
    mistakes = [f"it printed {said[-600:]!r}"] if re.search("unexpected(?! pos)|Traceback", said) else []
    has_finished = code == 0 and finished(rows)  # it came too late
    if not has_finished and (128 - code if code < 0 else code) not in promise.codes:
        mistakes.append(f"exit code {code} after {time.monotonic() - began:.0f} s: {said[-300:]!r}")
    if code == 1 and "GMI" not in said:
        mistakes.append(f"nobody is named: {said[-300:]!r}")
    return mistakes


def finished(rows: Path) -> bool:
    """Whether there is the row of the last iteration."""
    return rows.exists() and rows.read_bytes().count(b"\n") >= ITERATIONS


def what_is_left(running: Running, temporary: Path) -> list[str]:
    """What is wrong about what a run has left: processes, temporary files."""
    files = [str(file.relative_to(temporary)) for file in temporary.rglob("*") if file.is_file()]
    return running.left(GONE_S) + ([f"temporary files: {files[:5]}"] if files else [])


def damage(fault: Fault, run: Path) -> None:
    """Damage what the trouble is about."""
    chance = random.Random(fault.number)
    if fault.trouble == CHECKPOINT:
        newest = max((run / "checkpoints").glob("[0-9]*"))
        file = chance.choice(sorted(newest.iterdir()))
        content = bytearray(file.read_bytes())
        content[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
        file.write_bytes(content[: chance.choice((len(content), len(content) // 2))])
    elif fault.trouble == ROWS:
        content = (run / "metrics.jsonl").read_bytes()
        (run / "metrics.jsonl").write_bytes(content[: chance.randrange(len(content))])


def goes_on(fault: Fault, place: Place, run: Path, whole: dict[str, str] | None) -> list[str]:
    """Resume the run to its last iteration. Returns what was wrong."""
    if not list((run / "checkpoints").glob("[0-9]*")):
        return ["there is no checkpoint"]
    if fault.trouble == CHECKPOINT:
        newest = max((run / "checkpoints").glob("[0-9]*"))
        code, said = outcome(place, resumed(run, ITERATIONS))
        if code in (0, 1) or newest.name not in said or "Traceback" in said:
            return [f"a damaged checkpoint was not refused ({code}): {said[-300:]!r}"]
        shutil.rmtree(newest)
    if max((run / "checkpoints").glob("[0-9]*")).name < f"{ITERATIONS:06d}":
        code, said = outcome(place, resumed(run, ITERATIONS))
        if code or "Traceback" in said:
            return [f"it did not go on ({code}): {said[-300:]!r}"]
    if whole is not None and (now := digests(run)) != whole:
        return [f"other parameters than undisturbed: {[name for name in whole if now.get(name) != whole[name]]}"]
    return []


def outcome(place: Place, arguments: list[str]) -> tuple[int | None, str]:
    """The exit code and the output of a command; None if it does not end."""
    with started_command(place, arguments) as running:
        said = running.wait(STARTS_S)
    return running.process.returncode, said


if __name__ == "__main__":
    sys.exit(main())
