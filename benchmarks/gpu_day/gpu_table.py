"""The figures of a first day on a GPU as text: `python gpu_table.py FOLDER`, which has its `gpu_day.jsonl`."""

import argparse
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from gpu_trainings import told

SIZES = (2, 4)
WAYS = ("plain", "mps", "mps, capped")
PARAMETERS, THEIRS = "1535765", "1500000"
METHODS = ("IPC", "MPR-shm", "MPR-gloo", "HAR", "SHARD")

Facts = Mapping[str, Any]


def main() -> None:
    """Print all tables. Each stage that they are of must have a result."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    rows = [json.loads(line) for line in (folder / "gpu_day.jsonl").read_text().splitlines()]
    saw = {row["stage"]: row["saw"] for row in rows}  # the last of each stage
    print(*machine(rows[-1]["machine"]), "", sep="\n")
    print("One GMI, Ant, PPO", *solo(saw["solo"]), "", sep="\n")
    print("GMIs that share the GPU, Ant, PPO: all together, and against one that has it alone", sep="\n")
    print(*sharing(saw["sharing"]), "", sep="\n")
    print(f"Microseconds of a sum of {PARAMETERS} float32 (torch's symmetric memory: {THEIRS})")
    print(*reductions(saw["question_8"], saw["question_4"]), "", sep="\n")
    trainings = (folder / "trainings.jsonl").read_text().splitlines()
    print("Trainings", told([json.loads(line) for line in trainings]), sep="\n")


def machine(known: Facts) -> Iterator[str]:
    """What it was measured on."""
    versions = known["versions"]
    yield f"{known['date'][:10]}, {', '.join(known['gpus'])}, {known['cores']} cores, commit {known['commit']}"
    yield ", ".join(f"{name} {versions[name]}" for name in ("python", "torch", "numpy", "mujoco-warp", "warp-lang"))


def solo(saw: Facts) -> Iterator[str]:
    """Speed and phases of one GMI by its environments."""
    yield f"{'environments':>12}{'steps/s':>12}{'simulate':>12}{'act':>10}{'learn':>10}{'memory':>12}"
    for num_env, one in saw.items():
        if num_env.isdecimal():
            phases = f"{1e3 * one['sim_s']:>9.1f} ms{1e3 * one['act_s']:>7.1f} ms{1e3 * one['learn_s']:>7.1f} ms"
            yield f"{num_env:>12}{one['steps_per_second']:>12,}{phases}{one['memory_bytes'] / 2**30:>8.1f} GiB"


def sharing(saw: Facts) -> Iterator[str]:
    """Speed of all GMIs by their way of sharing, and the ratio to one GMI without MPS."""
    alone = saw["plain k=1 none"]
    totals = [name for name in alone if name.isdecimal()]
    head = "".join(f"{f'{int(total):,} environments':>30}" for total in totals)
    yield f"{'':<18}{head}"
    for way in WAYS:
        for size in (1, *SIZES):
            found = [one for name, one in saw.items() if name.startswith(f"{way} k={size} ") and isinstance(one, dict)]
            if found:
                yield f"{f'{size} by {way}':<18}" + "".join(_speed(found[-1][total], alone[total]) for total in totals)
            elif size > 1:
                yield f"{f'{size} by {way}':<18}not measured"


def _speed(one: Facts, alone: Facts) -> str:
    ratio = f"{one['steps_per_second'] / alone['steps_per_second']:.2f}x"
    busy = f"SMs {one['sm_util']:.0f} %"
    return f"{one['steps_per_second']:>13,}{ratio:>7}{busy:>10}"


def reductions(ours: Facts, symmetric: Facts) -> Iterator[str]:
    """Microseconds of a sum by method, way of sharing and number of GMIs."""
    yield f"{'':<14}" + "".join(f"{method:>10}" for method in METHODS) + f"{'symmetric memory of torch':>28}"
    for name, one in ours.items():
        sums = "".join(f"{one[method][PARAMETERS]:>10.0f}" for method in METHODS)
        theirs = symmetric.get(name, {}).get(f"two_shot_all_reduce__us_{THEIRS}", "-")
        yield f"{name:<14}{sums}{theirs:>28}"


if __name__ == "__main__":
    main()
