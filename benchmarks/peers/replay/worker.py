"""A process of the benchmarks of replay servers: serves tables, or is one client, of the SYSTEM named by its argument.

It reads requests from its input and answers each, in lines of JSON. `SYSTEM_system.py` has the same functions for each.
"""

import importlib
import json
import mmap
import os
import sys
import time
from pathlib import Path
from types import ModuleType

import numpy as np

POOL = 32
"""Random items that are inserted in turn."""

KEYS = 2000
"""Of the items whose priorities are updated."""


def main() -> None:
    """Answer until the input ends."""
    system = importlib.import_module(f"{sys.argv[1]}_system")
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
            told["items"], told["wall_s"] = work(system, client, asked)
            told["cpu_s"] = time.process_time() - cpu_s
        else:
            told["cpu_s"] = cpu_s
        print(json.dumps(told), file=answers, flush=True)
    del server
    os._exit(0)  # threads of a library may wait for clients


def work(system: ModuleType, client: object, asked: dict) -> tuple[int, float]:
    """Insert, sample or update for the seconds asked. Returns items and seconds."""
    table, seconds, batch = asked["table"], asked["seconds"], asked["batch"]
    if asked["do"] == "insert":
        data = np.random.default_rng(os.getpid()).random((POOL, asked["floats"]), dtype=np.float32)
        calls = system.inserts(client, table, data, batch)
    elif asked["do"] == "sample":
        calls = system.samples(client, table, batch)
    elif asked["do"] == "learn":
        calls = system.batches(client, table, asked["floats"], batch)
    else:
        keys = system.some_keys(client, table, KEYS)
        calls = system.updates(client, table, keys, batch)
    next(calls)
    began, items = time.perf_counter(), 0
    while time.perf_counter() - began < seconds:
        items += next(calls)
    calls.close()  # waits for what was sent
    return items, time.perf_counter() - began


if __name__ == "__main__":
    main()
