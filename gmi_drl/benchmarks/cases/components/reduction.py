"""MPR-shm against MPR-gloo: how long one reduce between two GMIs takes."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

from gmi_drl.benchmarks.case import Case, Sample, Sides
from gmi_drl.benchmarks.cases.common import requirements
from gmi_drl.benchmarks.cases.components.reducing import ask, reducing
from gmi_drl.benchmarks.cores import PURPOSE

if TYPE_CHECKING:
    from gmi_drl.launch.processes.gmi_processes import GMIProcesses

RANKS = 2
SIDES = {"shared memory": "MPR-shm", "gloo": "MPR-gloo"}


@contextmanager
def open_sides(numel: int, reduces: int, quick: bool) -> Iterator[Sides]:
    """Two GMIs with a core each, which both sides ask by turns."""
    from gmi_drl.gmi import claimed
    from gmi_drl.layout.layout import GMI, Device, GmiGroup, Layout

    gmis = tuple(GMI(id=rank, roles=("trainer",), cores=(rank,)) for rank in range(RANKS))
    groups = {name: GmiGroup(members=tuple(range(RANKS)), reduction=name) for name in SIDES.values()}
    layout = Layout(devices=(Device(kind="cpu", gmis=gmis),), groups=groups)
    counts = dict.fromkeys(groups, reduces // 4 if quick else reduces)
    numels = dict.fromkeys(groups, numel)
    with claimed([layout], PURPOSE) as claim, reducing(claim, layout, numels, counts) as processes:
        sides = {name: partial(_sample, processes, method) for name, method in SIDES.items()}
        for warm_up in sides.values():
            warm_up()
        yield sides


def _sample(processes: "GMIProcesses", method: str) -> Sample:
    row = ask(processes, method)
    return Sample(row["median_s"], {"copy_s": row["copy_s"]})


def _obstacle() -> str | None:
    from gmi_drl.comm.memory.fence import obstacle as no_fence

    return no_fence("ranks that share memory") or requirements.cores(RANKS)


def _case(numel: int, reduces: int, guard: float | None = None, floor: float | None = None) -> Case:
    return Case(
        name=f"reduction_{round(numel / 1000)}k",
        claim=f"Sum of {numel:,} float32 gradients over 2 processes on a core each: shared memory (MPR-shm) against "
        "gloo (MPR-gloo). `copy_s` is a copy of as many bytes within one process.",
        unit="s",
        open=partial(open_sides, numel, reduces),
        lower_is_better=True,
        obstacle=_obstacle,
        limits="gloo's own threads share the two cores with the ranks, which is hard on it: with idle cores the ratio "
        "may well be smaller. Both are for processes of one host.",
        repeats=15,
        guard=guard,
        floor=floor,
    )


CASES = (_case(114_121, 400), _case(286_822, 300, guard=2.5, floor=3), _case(1_535_765, 100))
"""Weights of the paper's smallest, a middle and the largest networks (Table 7), and reduces in a block."""
