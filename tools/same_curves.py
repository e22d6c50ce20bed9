"""`python -m tools.same_curves OLD NEW -o FILE.png`: learning curves of two checkouts, several seeds each.

For changes that alter numbers, such as another order of random draws: it shows whether both learn equally well.
"""

import argparse
import json
import sys
from concurrent.futures import ThreadPoolExecutor
from itertools import cycle
from pathlib import Path
from queue import Queue
from tempfile import TemporaryDirectory

from gmi_drl.gmi.inventory import allowed_cores
from gmi_drl.run.folder import RunFolder
from gmi_drl.run.metrics import read_metrics
from tools.checkout import commit, train

FIXED = {"--num-env": 256, "--gmis-per-gpu": 1}

Curve = list[tuple[int, float]]
"""Environment steps, and the mean return of the last hundred episodes."""


def main() -> int:
    """Run all trainings, one per core at a time, and write the curves as JSON and as a picture."""
    parser = argparse.ArgumentParser(prog="python -m tools.same_curves", description=__doc__)
    parser.add_argument("old", type=Path, help="the root of a checkout")
    parser.add_argument("new", type=Path, help="of another one")
    parser.add_argument("--task", default="ant")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--iterations", type=int, default=100, help="of 4096 steps")
    parser.add_argument("-o", "--output", type=Path, required=True, help="FILE.png; FILE.json lies beside it")
    given = parser.parse_args()
    sides = {commit(path): path.resolve() for path in (given.old, given.new)}
    if len(sides) < 2:
        parser.error(f"both checkouts are at {', '.join(sides)}: there is nothing to compare")
    options = FIXED | {"--task": given.task, "--iterations": given.iterations}
    free: Queue[int] = Queue()
    for core in allowed_cores():
        free.put(core)

    with TemporaryDirectory(prefix="gmi-drl-curves-") as path, ThreadPoolExecutor(free.qsize()) as pool:

        def curve(name: str, seed: int) -> Curve:
            core, folder = free.get(), Path(path) / f"{name}-{seed}"
            try:
                train(sides[name], options | {"--seed": seed}, folder, [core])
            finally:
                free.put(core)
            rows = read_metrics(RunFolder(folder).metrics_file)
            found = [(row["env_steps"], row["return_mean"]) for row in rows if row["return_mean"] is not None]
            print(f"{name} seed {seed}: {found[-1][1]:.1f} after {found[-1][0]} steps", flush=True)
            return found

        runs = [(name, seed, pool.submit(curve, name, seed)) for seed in range(given.seeds) for name in sides]
        curves: dict[str, list[Curve]] = {name: [] for name in sides}
        for name, _, run in runs:
            curves[name].append(run.result())
    given.output.with_suffix(".json").write_text(json.dumps({"task": given.task, "curves": curves}) + "\n")
    draw(curves, given.task, given.output)
    return 0


def draw(curves: dict[str, list[Curve]], task: str, path: Path) -> None:
    """Draw all curves, with a colour for each checkout."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6, 4), layout="constrained")
    axes = figure.add_subplot(xlabel="environment steps", ylabel="mean return of 100 episodes", title=task)
    for colour, (name, runs) in zip(cycle(("tab:gray", "tab:blue")), curves.items(), strict=False):
        for number, run in enumerate(runs):
            axes.plot(*zip(*run, strict=True), color=colour, label=f"{name}, {len(runs)} seeds" if not number else None)
    axes.legend()
    figure.savefig(path, dpi=120)


if __name__ == "__main__":
    sys.exit(main())
