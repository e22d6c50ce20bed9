"""Every reduction that groups of a shape can use, at four lengths."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING

from gmi_drl.benchmarks.case import CURVES, Case, Sample, Side, Sides
from gmi_drl.benchmarks.cases.common import requirements
from gmi_drl.benchmarks.cases.components.reducing import ask, reducing
from gmi_drl.benchmarks.cores import PURPOSE

if TYPE_CHECKING:
    from gmi_drl.launch.processes.gmi_processes import GMIProcesses
    from gmi_drl.layout.layout import Layout

CORES = 2
NUMELS = (30_000, 114_121, 286_822, 1_535_765)
"""Weights of the paper's networks (Table 7), and of a smaller one."""

REDUCES = (200, 100, 60, 20)
"""In one measurement, by length."""

TOLD = 114_121
"""The length whose time is the sample's value."""

GLOO = "MPR-gloo"
FREE_GLOO = "MPR-gloo, threads on all cores"
TABLE_7 = "Table 7 of the paper: 2 GPUs x 2 GMIs, by MRR, train 1.03x to 1.13x as fast as by its baseline"
SHAPES = ((2,), (1, 1), (3,), (2, 1), (1, 1, 1), (4,), (2, 2), (1, 3), (2, 1, 1), (1, 1, 1, 1))
"""GMIs of each device: all ways in which two to four are on devices."""


@contextmanager
def open_sides(mapping: Sequence[Sequence[int]], quick: bool) -> Iterator[Sides]:
    """GMIs that reduce by one method after the other, and others whose gloo has both cores for its threads."""
    from gmi_drl.gmi import claimed

    names, counts = _legal(mapping), [reduces // 4 if quick else reduces for reduces in REDUCES]
    bound, free = _layout(mapping, names, free=False), _layout(mapping, [GLOO], free=True)
    with (
        claimed([bound, free], PURPOSE) as claim,
        reducing(claim, bound, *_counts(bound, counts)) as ours,
        reducing(claim, free, *_counts(free, counts)) as gloo,
    ):
        sides: dict[str, Side] = {name: partial(_sample, ours, name) for name in names}
        yield sides | {FREE_GLOO: partial(_sample, gloo, GLOO)}


def _legal(mapping: Sequence[Sequence[int]]) -> list[str]:
    """MPR-shm first: it is ours; others are compared with it."""
    import platform

    from gmi_drl.layout.reductions import legal_reductions

    return [method.name for method in legal_reductions(mapping, "cpu", platform.machine())]


def _layout(mapping: Sequence[Sequence[int]], names: Sequence[str], *, free: bool) -> "Layout":
    """A core for each GMI by turns or, where they are free, all cores for each."""
    from gmi_drl.layout.layout import GMI, Device, GmiGroup, Layout

    def gmi(number: int) -> GMI:
        return GMI(id=number, roles=("trainer",), cores=tuple(range(CORES)) if free else (number % CORES,), threads=1)

    devices = tuple(Device(kind="cpu", index=index, gmis=tuple(map(gmi, gmis))) for index, gmis in enumerate(mapping))
    members = tuple(number for gmis in mapping for number in gmis)
    groups = {_group(name, numel): GmiGroup(members=members, reduction=name) for name in names for numel in NUMELS}
    return Layout(devices=devices, groups=groups, share_cores=free or len(members) > CORES)


def _counts(layout: "Layout", reduces: Sequence[int]) -> tuple[dict[str, int], dict[str, int]]:
    """Numbers and reductions of each group."""
    numels = {name: int(name.rpartition("-")[2]) for name in layout.groups}
    by_length = dict(zip(NUMELS, reduces, strict=True))
    return numels, {name: by_length[numel] for name, numel in numels.items()}


def _sample(processes: "GMIProcesses", name: str) -> Sample:
    seconds = [ask(processes, _group(name, numel))["median_s"] for numel in NUMELS]
    curves = {"parameters, k": [numel / 1000 for numel in NUMELS], "ms": [1000 * second for second in seconds]}
    return Sample(seconds[NUMELS.index(TOLD)], {CURVES: curves})


def _group(name: str, numel: int) -> str:
    return f"{name}-{numel}"


def name_of(shape: Sequence[int]) -> str:
    """The case's."""
    return "_".join(["reductions", *map(str, shape)])


def mapping_of(shape: Sequence[int]) -> list[list[int]]:
    """GMIs of each device, their ids in a row."""
    ids = iter(range(sum(shape)))
    return [list(islice(ids, gmis)) for gmis in shape]


def _case(shape: Sequence[int]) -> Case:
    mapping = mapping_of(shape)
    shared = "" if sum(shape) <= CORES else f", which take turns on {CORES} cores"
    return Case(
        name=name_of(shape),
        claim=f"Sum of 30,000 to 1,535,765 float32 gradients over {sum(shape)} processes{shared}, on described devices "
        f"{mapping}, by every reduction that is legal there. The figure is of {TOLD:,}.",
        unit="s",
        open=partial(open_sides, mapping),
        lower_is_better=True,
        obstacle=lambda: requirements.cores(CORES),
        reference=TABLE_7 if shape == (2, 2) else "",
        limits="Devices are cores of one host, so links between them are the loopback interface, and shared memory "
        f"joins all. gloo's threads are bound to the core of their rank or, in the last row, free on {CORES}.",
    )


CASES = tuple(map(_case, SHAPES))
