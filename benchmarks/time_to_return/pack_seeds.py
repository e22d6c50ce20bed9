"""Sixteen seeds of Ant by `gmi-drl sweep`: one after the other, 2, 4 and 8 side by side, and as many as it measures.

    python benchmarks/time_to_return/pack_seeds.py run      # 20 minutes on two quiet cores; goes on where it stopped
    python benchmarks/time_to_return/pack_seeds.py tell

Wall seconds of the whole sweep count, with starts and ends of all trainings; those of the measured one without its
measuring, which is told beside. Sides take turns, round after round.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

from resumable import read

FILE = Path(__file__).parents[1] / "results" / "pack_seeds.jsonl"
MEASURED = "measured"
SIDES = ("1", "2", "4", "8", MEASURED)
ROUNDS, SEEDS, ITERATIONS, NUM_ENV = 2, 16, 15, 256


def main() -> None:
    """Run what is missing, or tell what there is."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("command", choices=("run", "tell"))
    if parser.parse_args().command == "run":
        known = {(run["side"], run["round"]) for run in read(FILE)}
        for number in range(ROUNDS):
            for side in SIDES if number % 2 == 0 else SIDES[::-1]:
                if (side, number) not in known:
                    run = packed(side, number)
                    with FILE.open("a") as file:
                        file.write(json.dumps(run) + "\n")
                    print(run, flush=True)
    tell(read(FILE))


def packed(side: str, number: int) -> dict[str, Any]:
    """Run a sweep with so many trainings at once. Returns its wall seconds, and those of its measuring."""
    command = [str(Path(sys.executable).with_name("gmi-drl")), "sweep", "--task", "ant", "--seeds", f"0-{SEEDS - 1}"]
    command += ["--iterations", str(ITERATIONS), "--num-env", str(NUM_ENV)]
    with TemporaryDirectory(prefix="pack-seeds-") as folder:
        command += ["--sweep-dir", f"{folder}/sweep"] + ([] if side == MEASURED else ["--at-once", side])
        began = time.monotonic()
        with subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True) as process:
            assert process.stderr is not None
            measured = began
            for line in process.stderr:
                if re.search(r"steps/s together|not tried|not enough", line):
                    measured = time.monotonic()
        ended = time.monotonic()
        if process.returncode:
            raise SystemExit(f"{' '.join(command)} ended with {process.returncode}")
        chosen = json.loads(Path(folder, "sweep", "sweep.json").read_text())
    return {
        "side": side,
        "round": number,
        "seconds": round(ended - measured, 1),
        "measuring_s": round(measured - began, 1),
        "at_once": chosen["at_once"],
        "speeds": chosen["measured"],
        "cores": len(os.sched_getaffinity(0)),
    }


def tell(runs: list[dict[str, Any]]) -> None:
    """Print the median seconds of each side, and its ratio to one training after the other."""
    seconds = {side: [run["seconds"] for run in runs if run["side"] == side] for side in SIDES}
    whole = {side: median(values) for side, values in seconds.items() if values}
    for side, value in whole.items():
        chosen = sorted({run["at_once"] for run in runs if run["side"] == side})
        ratio = f", {whole['1'] / value:.2f}x one after the other" if "1" in whole else ""
        print(f"{side} at once{f' (chose {chosen})' if side == MEASURED else ''}: {value:.0f} s{ratio}")
    if MEASURED in whole and len(whole) > 1:
        best = min(value for side, value in whole.items() if side != MEASURED)
        print(f"The measured number takes {whole[MEASURED] / best - 1:+.1%} against the best.")


if __name__ == "__main__":
    main()
