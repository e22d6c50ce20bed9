"""Runs of a script, a process each, whose results are lines of a file: what is in the file is not run again."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from gmi_drl.benchmarks import peers
from gmi_drl.layout.environment import KEEP_FREED_MEMORY

Run = dict[str, Any]


def run_all(
    script: str,
    wanted: Sequence[Sequence[str]],
    file: Path,
    cores: int | None,
    tell: Callable[[Run], str],
    peer: str | None = None,
) -> None:
    """Run `SCRIPT one ARGUMENTS` for all wanted arguments, and append the line of JSON that each prints to the file.

    Each has one thread, on a core that no other has. `tell` says in words what a run has given.

    Args:
        script: Its path.
        wanted: The arguments of each run.
        file: Gets the lines.
        cores: Runs at a time; None for as many as there are cores.
        tell: Is called with each result.
        peer: In whose environment they run, with gmi-drl from this checkout; None for this process's own.
    """
    file.parent.mkdir(parents=True, exist_ok=True)
    python, more = sys.executable, {"OMP_NUM_THREADS": "1"}
    if peer:
        python, more = str(peers.python(peer)), more | {"PYTHONPATH": str(peers.REPOSITORY)}
    free = sorted(os.sched_getaffinity(0))[:cores]

    def run(arguments: Sequence[str]) -> None:
        core = free.pop()
        command = ["taskset", "-c", str(core), python, script, "one", *arguments]
        environment = os.environ | KEEP_FREED_MEMORY | more
        try:
            line = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=environment).stdout
        finally:
            free.append(core)
        with file.open("a") as lines:
            lines.write(line)
        print(tell(json.loads(line)), flush=True)

    with ThreadPoolExecutor(len(free)) as pool:
        done = [pool.submit(run, arguments) for arguments in wanted]
    for future in done:
        future.result()


def read(file: Path) -> list[Run]:
    """The results in a file; none if it is not there."""
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
