"""Runs stages: commands with a deadline. A stage leaves no process, and a line of JSON with its result."""

import json
import os
import resource
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import IO, Any, NoReturn

from cleanup import MARK, kept

from gmi_drl.benchmarks.machine import Watch
from gmi_drl.errors import GmiError
from gmi_drl.gmi.inventory import visible_gpus

CALL_S = 540.0
"""Seconds of one call: less than ten minutes, for machines that are lent by the ten minutes."""
SPARED = 0.9
"""The part of a call that the expected times of its stages fill."""
REHEARSAL = "GMI_DRL_REHEARSAL"
"""Set for stages that are only rehearsed; then a missing GPU is no error."""
PATIENCE = 2.0
"""The deadline of a stage, as a multiple of its expected time."""
GRACE_S = 5.0
MPS_CONTROL = "nvidia-cuda-mps-control"
SEARCH_S = 20.0
PROGRAMS = {
    "gmi-drl": (sys.executable, "-P", "-c", "from gmi_drl.cli import main; main()"),
    "python": (sys.executable,),
}
"""The programs of this interpreter, whether gmi-drl is installed or in PYTHONPATH."""
DONE, LATE, CUT = "done", "too late", "cut short"
NAME_WIDTH = 34
"""The width of the column of names."""
TAIL, SHOWN = 40, 12
"""Last lines of the output that are kept, and that are shown."""

Row = dict[str, Any]


@dataclass(frozen=True)
class Stage:
    """Commands that run one after the other in a temporary folder.

    Args:
        name: One word.
        about: A short description.
        seconds: The expected time of all commands on a GPU.
        commands: The arguments of each; the first is a key of `PROGRAMS`.
        call: The number of the call in which it runs, from 1.
    """

    name: str
    about: str
    seconds: float
    commands: tuple[tuple[str, ...], ...]
    call: int = 1


def obstacle(is_rehearsal: bool) -> str | None:
    """Why this machine cannot run stages; None if it can. Then everything is restricted to the first visible GPU."""
    os.environ |= {REHEARSAL: "1"} if is_rehearsal else {}
    try:
        gpus = visible_gpus()
    except GmiError as error:
        return str(error)
    if gpus:
        os.environ["CUDA_VISIBLE_DEVICES"] = gpus[0].uuid
        if not shutil.which(MPS_CONTROL) and (found := find_program(MPS_CONTROL)):
            os.environ["PATH"] += os.pathsep + os.path.dirname(found)
    if is_rehearsal or gpus:
        return None
    return "the driver (NVML) tells of no GPU: run it on a machine with one, or try it out with --rehearse"


def find_program(name: str) -> str | None:
    """The path of a program, in PATH or elsewhere; None if it is not found within `SEARCH_S`."""
    if found := shutil.which(name):
        return found
    elsewhere = " -o ".join(f"-path {folder}" for folder in ("/proc", "/sys", "/tmp"))
    look = f"find / ( {elsewhere} ) -prune -o -type f -name {name} -print -quit".split()
    with suppress(OSError, subprocess.TimeoutExpired):
        return subprocess.run(look, capture_output=True, text=True, timeout=SEARCH_S).stdout.strip() or None
    return None


def run_all(stages: Sequence[Stage], output: Path, seconds: float) -> int:
    """Run stages in their order, as many as fit into a number of seconds. Returns the exit code.

    `output` gets a line for each stage as it ends. A log of the same name gets everything that stages print, at once.
    """
    signal.signal(signal.SIGTERM, _leave)
    end, rows = time.monotonic() + seconds, []
    output.parent.mkdir(parents=True, exist_ok=True)
    try:
        for stage in stages:
            left_s = end - time.monotonic()
            if stage.seconds > left_s:
                print(f"== {stage.name}: no time: it takes about {stage.seconds:.0f} s, {left_s:.0f} s are left")
                continue
            print(f"== {stage.name}: {stage.about}", flush=True)
            rows.append(run_stage(stage, left_s, output.with_suffix(".log")))
            with output.open("a") as file:
                file.write(json.dumps(rows[-1]) + "\n")
            print("\n".join(f"   {line}" for line in told(rows[-1])), flush=True)
    finally:
        print(table(rows), flush=True)
    return min(1, sum(row["state"] != DONE for row in rows))


def run_stage(stage: Stage, left_s: float, log: Path) -> Row:
    """Run the commands of a stage until one fails."""
    watch, started, cpu_s = Watch(), time.monotonic(), _cpu_s()
    limit_s, state = min(PATIENCE * stage.seconds, left_s), DONE
    with kept() as folder, log.open("ab") as file:
        begin = file.tell()
        for command in stage.commands:
            state = run(command, folder, started + limit_s - time.monotonic(), file)
            if state != DONE:
                break
    saw, rest = facts(log.read_bytes()[begin:].decode(errors="replace"))
    return {
        "stage": stage.name,
        "about": stage.about,
        "state": CUT if state == LATE and limit_s == left_s else state,
        "seconds": round(time.monotonic() - started, 1),
        "cpu_s": round(_cpu_s() - cpu_s, 1),
        "commands": stage.commands,
        "saw": saw,
        "last_words": rest[-TAIL:],
        "machine": watch.machine().model_dump(mode="json"),
        "warp_cache": os.environ.get("WARP_CACHE_PATH"),
    }


def run(command: Sequence[str], folder: Path, seconds: float, log: IO[bytes]) -> str:
    """Run a command in a folder of `cleanup`. Returns how it ended."""
    program, *arguments = command
    log.write(f"$ {shlex.join(command)}\n".encode())
    log.flush()
    environment = {MARK: str(folder), "PYTHONUNBUFFERED": "1", "GMI_DRL_DEBUG": "1"}
    process = subprocess.Popen(
        [*PROGRAMS[program], *arguments],
        cwd=folder,
        env=os.environ | environment,
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    try:
        code = process.wait(max(0.0, seconds))
    except subprocess.TimeoutExpired:
        process.terminate()  # a training now saves a checkpoint, a question ends its daemon
        with suppress(subprocess.TimeoutExpired):
            process.wait(GRACE_S)
        return LATE
    return DONE if code == 0 else f"exit {code}"


def facts(text: str) -> tuple[dict[str, Any], list[str]]:
    """Split an output into the facts of its lines of JSON, merged, and all other lines."""
    saw: dict[str, Any] = {}
    rest = []
    for line in text.splitlines():
        try:
            found = json.loads(line)
        except ValueError:
            found = None
        if isinstance(found, dict):
            saw |= found
        else:
            rest.append(line)
    return saw, rest


def told(row: Row) -> list[str]:
    """The facts of a stage as text."""
    return [f"{name}: {value}" for name, value in row["saw"].items()] + row["last_words"][-SHOWN:]


def table(rows: Iterable[Row]) -> str:
    """The table of stages and their results."""
    lines = [f"{row['stage']:<{NAME_WIDTH}}{row['state']:<11}{row['seconds']:>6.1f} s  {row['about']}" for row in rows]
    return "\n".join(["", *(lines or ["nothing was run"])])


def results(output: Path) -> dict[str, Row]:
    """The last line of each stage that has a result. A stage that was interrupted has none."""
    rows = [json.loads(line) for line in output.read_text().splitlines()] if output.exists() else []
    return {row["stage"]: row for row in rows if row["state"] != CUT}


def _cpu_s() -> float:
    """The CPU seconds of all descendants that have ended and been waited for."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _leave(number: int, frame: FrameType | None) -> NoReturn:
    """Exit on SIGTERM, so that `with` blocks clean up."""
    sys.exit(128 + number)
