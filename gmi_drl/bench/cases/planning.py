"""How long a plan for 10,000 GPUs takes, start-up and writing included."""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from gmi_drl.bench.case import Case, Sample, Sides
from gmi_drl.errors import GmiError

GPUS = 10_000
GMIS_EACH = 4
LIMIT_S = 1.0
DEADLINE_S = 120.0

NODE = {
    "name": "ten-thousand",
    "gpus": {"model": "H100-80GB", "count": GPUS},
    "cpu": {"cores": 8 * GPUS, "memory_gib": 125 * GPUS},
}
SPEEDS = {1: 200_000, 2: 115_000, GMIS_EACH: 65_000, 8: 20_000}
"""Made up: steps per second of one GMI, by GMIs on its GPU. `GMIS_EACH` is best."""


@contextmanager
def open_sides(quick: bool) -> Iterator[Sides]:
    """The command, in a temporary folder with its input, and the limit. Quick is not other than thorough here."""
    points = [
        {"gmis_per_gpu": gmis, "num_env": 4096, "runnable": True, "steps_per_second": speed}
        for gmis, speed in SPEEDS.items()
    ]
    profile = {"schema": "gmi-drl/profile/1", "task": "ant", "algo": "ppo", "node": "made up", "points": points}
    with tempfile.TemporaryDirectory(prefix="gmi-drl-planning-") as name:
        folder = Path(name)
        (folder / "node.yaml").write_text(json.dumps(NODE))  # JSON is YAML, too
        (folder / "points.json").write_text(json.dumps(profile))
        yield {"plan 10,000 GPUs": lambda: plan_in(folder), "limit": lambda: Sample(LIMIT_S)}


def plan_in(folder: Path) -> Sample:
    """Seconds of the whole command, from the start of its process to its end.

    Raises:
        GmiError: if it fails, or writes another number of GMIs.
    """
    arguments = ["plan", "--node", "node.yaml", "--profile", "points.json", "-o", "layout.yaml"]
    line = [sys.executable, "-c", "from gmi_drl.cli import main; main()", *arguments]
    own = {name: value for name, value in os.environ.items() if not name.startswith("GMI_DRL_PLAN_")}
    start = time.perf_counter()
    run = subprocess.run(line, cwd=folder, env=own, capture_output=True, text=True, timeout=DEADLINE_S, check=False)
    seconds = time.perf_counter() - start
    if run.returncode != 0:
        raise GmiError(f"gmi-drl plan ended with exit code {run.returncode}: {run.stderr.strip()}")
    layout = (folder / "layout.yaml").read_text()
    if (count := layout.count("{id: ")) != GPUS * GMIS_EACH:
        raise GmiError(f"gmi-drl plan wrote {count} GMIs where {GPUS * GMIS_EACH} are best: its search is broken")
    return Sample(seconds, {"num_gmis": count, "layout_bytes": len(layout)})


CASE = Case(
    name="planning",
    claim="`gmi-drl plan` for 10,000 GPUs with 4 GMIs each, from a node file and a profile file to the layout file: "
    "the whole command with the start of Python, against the limit of one second.",
    unit="s",
    open=open_sides,
    lower_is_better=True,
    limits="The profile is made up and has four points: measuring them is not a part of this. The time grows with the "
    "GMIs, and includes bringing the layout to the disk.",
    repeats=7,
    guard=0.1,
)
