"""Candidates for a faster iteration of PPO: memory in huge pages, and gradients compiled by torch.compile.

    python benchmarks/profiles/candidates.py candidates.txt

Ant, 256 environments, horizon 16, one thread of one core. Each side trains in a process of its own, and they take
turns. All have the allocator's settings of a GMI.

- `huge pages`: glibc asks the kernel for huge pages for all that malloc takes (`glibc.malloc.hugetlb=1`). That needs
  glibc 2.35, and `madvise` or `always` in /sys/kernel/mm/transparent_hugepage/enabled; *huge, MiB* is what it got.
- `torch.compile`: the gradients of a mini-batch are one compiled graph, with fused loops between the matrix products.
  *First, s* has the first iteration with compiling, from a cache that is empty.
- `no clipping`: gradients are not clipped. It shows the most that a kernel of Adam that also clips could save. Robots
  then move otherwise, so only learning can be compared.
"""

import json
import os
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from iteration_profile import replica_of

from gmi_drl.benchmarks.cases.components.costs import NUM_ENV, WARM_UP, iterate
from gmi_drl.benchmarks.cores import one_core
from gmi_drl.benchmarks.statistics import ends, ratios
from gmi_drl.layout.environment import KEEP_FREED_MEMORY

AS_IT_IS, HUGE, COMPILED, UNCLIPPED = "as it is", "huge pages", "torch.compile", "no clipping"
SIDES = (AS_IT_IS, HUGE, COMPILED, UNCLIPPED)
ROUNDS, ITERATIONS = 5, 12
PHASES = ("sim_s", "act_s", "learn_s")

Row = dict[str, float]
"""What a process measured: seconds of an iteration by phase, seconds of the first one, MiB in huge pages."""


def main() -> None:
    """Measure, or be one of the processes that do."""
    if sys.argv[1] == "one":
        print(json.dumps(measure(sys.argv[2])))
        return
    rows: dict[str, list[Row]] = {side: [] for side in SIDES}
    for _ in range(ROUNDS):
        for side in SIDES:
            rows[side].append(in_a_process(side))
    Path(sys.argv[1]).write_text(text := table(rows))
    print(text, end="")


def in_a_process(side: str) -> Row:
    """Measure a side in a process of its own."""
    with TemporaryDirectory(prefix="gmi-drl-candidates-") as folder:
        more = KEEP_FREED_MEMORY | {"OMP_NUM_THREADS": "1", "TORCHINDUCTOR_CACHE_DIR": folder}
        more |= {"GLIBC_TUNABLES": "glibc.malloc.hugetlb=1"} if side == HUGE else {}
        command = [sys.executable, __file__, "one", side]
        told = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=os.environ | more).stdout
    row: Row = json.loads(told.splitlines()[-1])
    return row


def measure(side: str) -> Row:
    """Train in this process."""
    from gmi_drl.tasks import make

    if side == COMPILED:
        compile_gradients()
    if side == UNCLIPPED:
        clip_nothing()
    with one_core(), closing(make("ant", num_env=NUM_ENV)) as task:
        replica = replica_of(task, bf16=False)
        start = time.perf_counter()
        iterate(replica, 1)
        first_s = time.perf_counter() - start
        iterate(replica, WARM_UP)
        return {**iterate(replica, ITERATIONS), "first_s": first_s, "huge_mib": huge_mib()}


def compile_gradients() -> None:
    """Have PPO compile its gradients."""
    import torch

    from gmi_drl.algo.ppo import PPO

    PPO._differentiate = torch.compile(PPO._differentiate, fullgraph=True)  # type: ignore[method-assign]


def clip_nothing() -> None:
    """Have learners leave gradients as they are."""
    from gmi_drl.algo.flat_learner import FlatLearner

    FlatLearner._clip = lambda self, gradient: None  # type: ignore[method-assign]


def huge_mib() -> float:
    """MiB of this process that are in huge pages."""
    lines = Path("/proc/self/smaps_rollup").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("AnonHugePages")) / 1024


def table(rows: dict[str, list[Row]]) -> str:
    """Median milliseconds of each side, and how many times as fast as `as it is` learning and iterations are."""
    lines = [
        f"{'ms of an iteration':<20}{'simulate':>9}{'act':>7}{'learn':>8}{'all':>8}  {'learning, ratio':<20}"
        f"{'iteration, ratio':<20}{'first, s':>9}{'huge, MiB':>11}"
    ]
    for side, measured in rows.items():
        ms = [1000 * median(row[phase] for row in measured) for phase in PHASES]
        texts = [faster(rows[AS_IT_IS], measured, phases) for phases in (("learn_s",), PHASES)]
        lines.append(
            f"{side:<20}{ms[0]:>9.1f}{ms[1]:>7.1f}{ms[2]:>8.1f}{sum(ms):>8.1f}  {texts[0]:<20}{texts[1]:<20}"
            f"{median(row['first_s'] for row in measured):>9.1f}{median(row['huge_mib'] for row in measured):>11.0f}"
        )
    return "\n".join(lines) + "\n"


def faster(before: list[Row], after: list[Row], phases: tuple[str, ...]) -> str:
    """How many times as fast these phases are, with an interval by rounds; nothing of a side beside itself."""
    if before is after:
        return ""
    columns = [[seconds(row, phases) for row in rows] for rows in (after, before)]
    found = ratios(*columns, lower_is_better=True)
    low, high = ends(found)
    return f"{median(found):.2f}x ({low:.2f}-{high:.2f})"


def seconds(row: Row, phases: tuple[str, ...]) -> float:
    """Of these phases together."""
    return sum(row[phase] for phase in phases)


if __name__ == "__main__":
    main()
