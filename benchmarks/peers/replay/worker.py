"""A process of the benchmarks of replay servers: serves tables, or is one client, of the SYSTEM named by its argument.

It reads requests from its input and answers each, in lines of JSON. `SYSTEM_system.py` has the same functions for each.
"""

import importlib
import json
import mmap
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import numpy as np

POOL = 32
"""Random items that are inserted in turn."""

KEYS = 2000
"""Of the items whose priorities are updated."""


def main(system: ModuleType) -> None:
    """Answer until the input ends, by the functions of a system."""
    server = client = None
    answers, sys.stdout = sys.stdout, sys.stderr  # what libraries print is no answer
    for line in sys.stdin:
        asked = json.loads(line)
        cpu_s, told = time.process_time(), {}
        if asked["do"] == "serve":
            server, told["port"] = system.serve(asked["tables"], asked["writers"])
        elif asked["do"] == "connect":
            client = system.connect(asked["port"], asked["is_shared"])
        elif asked["do"] == "memory":
            told["bytes"] = int(Path("/proc/self/statm").read_text().split()[1]) * mmap.PAGESIZE
        elif asked["do"] != "cpu":
            while time.time() < asked["start"]:
                time.sleep(0.001)
            calls = system.begin(client, asked) if hasattr(system, "begin") else begin(system, client, asked)
            told["items"], told["wall_s"] = work(calls, asked["seconds"])
            told["cpu_s"] = time.process_time() - cpu_s
        else:
            told["cpu_s"] = cpu_s
        print(json.dumps(told), file=answers, flush=True)
    del server
    os._exit(0)  # threads of a library may wait for clients


def begin(system: ModuleType, client: object, asked: dict) -> Iterator[int]:
    """The calls that are asked for: inserts, samples or updates."""
    table, batch = asked["table"], asked["batch"]
    if asked["do"] == "insert":
        data = np.random.default_rng(os.getpid()).random((POOL, asked["floats"]), dtype=np.float32)
        return system.inserts(client, table, data, batch)
    if asked["do"] == "sample":
        return system.samples(client, table, batch)
    if asked["do"] == "learn":
        return system.batches(client, table, asked["floats"], batch)
    return system.updates(client, table, system.some_keys(client, table, KEYS), batch)


def work(calls: Iterator[int], seconds: float) -> tuple[int, float]:
    """Go on for some seconds. Returns items and seconds."""
    next(calls)
    began, items = time.perf_counter(), 0
    while time.perf_counter() - began < seconds:
        items += next(calls)
    calls.close()  # waits for what was sent
    return items, time.perf_counter() - began


if __name__ == "__main__":
    main(importlib.import_module(f"{sys.argv[1]}_system"))
