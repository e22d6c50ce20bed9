"""MPR-shm against MPR-gloo: seconds for one reduce between two processes on a core each, by turns.

`python benchmarks/reduction.py --pairs 7 -o benchmarks/results/reduction.json`
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import record
import torch
from torch import Tensor

from gmi_drl.comm import Reduction, create_segment, open_reduction

RANKS = 2
REDUCES = {114_121: 400, 286_822: 300, 1_535_765: 100}  # vector length -> reduces in a block
WARM_UP = 20
Row = dict[str, float]


def median_s(timed: Callable[[], object], bucket: Tensor, gradient: Tensor, repeats: int) -> float:
    """The median time of a call which finds its bucket freshly written by this core, as after a backward pass."""
    times = []
    for _ in range(repeats):
        bucket.copy_(gradient)
        start = time.perf_counter()
        timed()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def measure(shm: Reduction, gloo: Reduction, numel: int, repeats: int, pairs: int) -> list[Row]:
    """One row per pair: a block of each method in turn, and a copy of the same bytes inside this process."""
    gradient, elsewhere = torch.randn(numel), torch.zeros(numel)
    shm_bucket, gloo_bucket = shm.bucket(numel), gloo.bucket(numel)

    def pair(count: int) -> Row:
        shm_s = median_s(lambda: shm.reduce(shm_bucket), shm_bucket, gradient, count)
        gloo_s = median_s(lambda: gloo.reduce(gloo_bucket), gloo_bucket, gradient, count)
        memcpy_s = median_s(lambda: elsewhere.copy_(gloo_bucket), gloo_bucket, gradient, count)
        shm.barrier()
        return {"shm_s": shm_s, "gloo_s": gloo_s, "memcpy_s": memcpy_s, "gloo_over_shm": gloo_s / shm_s}

    pair(WARM_UP)
    return [pair(repeats) for _ in range(pairs)]


def work(spec: dict[str, Any]) -> None:
    """One rank: measure every size in turn; rank 0 prints the rows."""
    rank = spec["rank"]
    torch.set_num_threads(1)
    os.sched_setaffinity(0, {spec["cores"][rank]})
    for (numel, repeats), fd in zip(REDUCES.items(), spec["fds"], strict=True):
        shm = open_reduction("MPR-shm", rank, RANKS, fd=fd)
        gloo = open_reduction("MPR-gloo", rank, RANKS, store_path=Path(spec["store"] + str(numel)))
        rows = measure(shm, gloo, numel, repeats, spec["pairs"])
        if rank == 0:
            print(json.dumps({"numel": numel, "reduces_per_block": repeats, "pairs": rows}), flush=True)
        shm.close()
        gloo.close()


def spread(rows: list[Row], name: str) -> Row:
    """Median and range of one column."""
    column = [row[name] for row in rows]
    return {"median": statistics.median(column), "min": min(column), "max": max(column)}


def launch(pairs: int, cores: list[int]) -> list[dict[str, Any]]:
    """Run both ranks and return rank 0's results with their summaries."""
    fds = [create_segment(RANKS, 4 * numel) for numel in REDUCES]
    with tempfile.TemporaryDirectory() as folder:
        spec = {"fds": fds, "store": folder + "/store", "pairs": pairs, "cores": cores}
        lines = [[sys.executable, __file__, "--rank-spec", json.dumps({**spec, "rank": rank})] for rank in range(RANKS)]
        ranks = [subprocess.Popen(line, pass_fds=fds, stdout=subprocess.PIPE, text=True) for line in lines]
        outputs = [rank.communicate()[0] for rank in ranks]
    if failed := [index for index, rank in enumerate(ranks) if rank.returncode]:
        raise SystemExit(f"rank {failed} failed")
    results = [json.loads(line) for line in outputs[0].splitlines()]
    return [
        {**result, "summary": {name: spread(result["pairs"], name) for name in result["pairs"][0]}}
        for result in results
    ]


def report(result: dict[str, Any]) -> str:
    """One line for people."""
    names = ("shm_s", "gloo_s", "memcpy_s")
    cells = [f"{name[:-2]} {{median:.0f}} us ({{min:.0f}}-{{max:.0f}})" for name in names]
    texts = [
        cell.format(**{key: value * 1e6 for key, value in result["summary"][name].items()})
        for name, cell in zip(names, cells, strict=True)
    ]
    ratio = "gloo/shm {median:.1f} ({min:.1f}-{max:.1f})".format(**result["summary"]["gloo_over_shm"])
    return f"{result['numel']:>9}  " + "  ".join([*texts, ratio])


def main() -> None:
    """Measure, print a table, and write the JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--pairs", type=int, default=7, help="blocks of each method per size")
    parser.add_argument("-o", "--output", type=Path, help="write the numbers as JSON")
    parser.add_argument("--rank-spec", type=json.loads, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.rank_spec is not None:
        return work(arguments.rank_spec)
    cores = sorted(os.sched_getaffinity(0))[:RANKS]
    if len(cores) < RANKS:
        parser.error(f"needs {RANKS} cores, this process may use {len(cores)}")
    before = record.machine()
    results = launch(arguments.pairs, cores)
    print(*map(report, results), sep="\n")
    if arguments.output:
        settings = {"ranks": RANKS, "cores": cores, "threads": 1, "pairs": arguments.pairs, "warm_up": WARM_UP}
        record.write(arguments.output, "reduction", before, settings, results)


if __name__ == "__main__":
    main()
