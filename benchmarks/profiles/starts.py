"""What a user waits for, and what a training does beside simulating, acting and learning.

    python benchmarks/profiles/starts.py > benchmarks/results/starts.txt

Seconds until `--help` ends, until a training shows on a terminal that it starts, until it prints its first line where
there is no terminal, and until its first row; then the share of a GMI's time that is in no phase of its iterations
(rows, messages, heartbeats, checkpoints, writers), and the processor time of the launcher against the GMI's.
"""

import json
import os
import pty
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import psutil

from gmi_drl.run.phases import PHASE_NAMES

COMMAND = str(Path(sys.executable).with_name("gmi-drl"))
ROUNDS, ITERATIONS, WARM = 7, 150, 20
LOOK_S = 0.01


def main() -> None:
    """Measure and print."""
    print(f"python {sys.version.split()[0]}, {len(os.sched_getaffinity(0))} cores, load {os.getloadavg()[0]:.1f}")
    for words in (["--help"], ["train", "--help"], ["status", "--help"]):
        seconds = [ended_after(words) for _ in range(ROUNDS)]
        print(f"gmi-drl {' '.join(words)}: {median(seconds):.2f} s ({min(seconds):.2f} to {max(seconds):.2f})")
    seconds = [shown_after() for _ in range(ROUNDS)]
    print(f"training of Ant, first sign on a terminal after: {median(seconds):.2f} s ", end="")
    print(f"({min(seconds):.2f} to {max(seconds):.2f})")
    trainings = [training() for _ in range(3)]
    for name, unit in (
        ("first line after", "s"),
        ("first row after", "s"),
        ("beside the phases of an iteration", "%"),
        ("processor time of the launcher, of its GMI's", "%"),
    ):
        values = [of[name] for of in trainings]
        print(f"training of Ant, {name}: {median(values):.2f} {unit} ({min(values):.2f} to {max(values):.2f})")


def ended_after(words: list[str]) -> float:
    """Wall seconds of a command."""
    began = time.monotonic()
    subprocess.run([COMMAND, *words], check=True, stdout=subprocess.DEVNULL)
    return time.monotonic() - began


def shown_after() -> float:
    """Wall seconds until a training writes to its terminal that it starts. It is then stopped."""
    ours, its = pty.openpty()
    began = time.monotonic()
    with TemporaryDirectory() as folder:
        command = [COMMAND, "train", "--task", "ant", "--run-dir", f"{folder}/run"]
        process = subprocess.Popen(command, stdout=its, stderr=its, stdin=its)
        os.close(its)
        text = b""
        while b"starting" not in text:
            text += os.read(ours, 4096)
        seconds = time.monotonic() - began
        process.terminate()
        with suppress(OSError):  # the terminal's end
            while os.read(ours, 4096):
                pass
        process.wait()
    os.close(ours)
    return seconds


def training() -> dict[str, float]:
    """Train Ant on one core. Returns seconds and percentages by their names."""
    with TemporaryDirectory() as folder:
        run = Path(folder) / "run"
        core = min(os.sched_getaffinity(0))
        command = ["taskset", "-c", str(core), COMMAND, "train", "--task", "ant", "--iterations", str(ITERATIONS)]
        began = time.monotonic()
        with subprocess.Popen(
            [*command, "--run-dir", str(run)], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
        ) as process:
            assert process.stderr is not None
            process.stderr.readline()
            line_s = time.monotonic() - began
            os.set_blocking(process.stderr.fileno(), False)
            row_s, of_launcher, of_gmi = 0.0, 0.0, 0.0
            while process.poll() is None:
                process.stderr.read()
                if not row_s and (run / "metrics.jsonl").exists() and (run / "metrics.jsonl").stat().st_size:
                    row_s = time.monotonic() - began
                of_launcher, of_gmi = map(max, used(process.pid), (of_launcher, of_gmi))
                time.sleep(LOOK_S)
        if process.returncode:
            raise SystemExit(f"{' '.join(command)} ended with {process.returncode}")
        rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return {
        "first line after": line_s,
        "first row after": row_s,
        "beside the phases of an iteration": 100 * median(beside(rows)),
        "processor time of the launcher, of its GMI's": 100 * of_launcher / of_gmi,
    }


def used(pid: int) -> tuple[float, float]:
    """Processor seconds of a launcher, and of what it has started and has not ended."""
    try:
        launcher = psutil.Process(pid)
        children = [child.cpu_times() for child in launcher.children(recursive=True)]
        own = launcher.cpu_times()
    except psutil.Error:
        return 0.0, 0.0
    return own.user + own.system, sum(times.user + times.system for times in children)


def beside(rows: list[dict]) -> list[float]:
    """The share of each iteration that is in none of its phases, of all but the first ones."""
    rows = [row for row in rows if row.get("iteration", 0) > WARM and row.get("steps_per_second")]
    steps = rows[1]["env_steps"] - rows[0]["env_steps"]
    walls = [steps / row["steps_per_second"] for row in rows]
    return [1 - sum(row[name] for name in PHASE_NAMES) / wall for row, wall in zip(rows, walls, strict=True)]


if __name__ == "__main__":
    main()
