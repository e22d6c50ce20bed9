"""The sum of gradients alone: MPR-shm against MPR-gloo and MPI, and every reduction that is legal for a mapping.

The GMIs of a case all live at once, and one group reduces at a time.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import islice, pairwise
from statistics import median
from typing import TYPE_CHECKING

from gmi_drl.benchmarks import peers
from gmi_drl.benchmarks.case import CURVES, Case, Sample, Side, Sides
from gmi_drl.benchmarks.cases.common import requirements
from gmi_drl.benchmarks.cores import PURPOSE

if TYPE_CHECKING:
    from gmi_drl.gmi import Claim
    from gmi_drl.launch.processes.gmi_processes import GMIProcesses
    from gmi_drl.layout.layout import Layout

HANG_S = 120.0
ROLE = "gmi_drl.benchmarks.cases.components.reduction_role:Reducer"
CORES = 2

SIDES_OF_TWO = {"shared memory": "MPR-shm", "gloo": "MPR-gloo"}

PEER, DRIVER = "mpi", "reduce_mpi"
MPI = "mpi4py"
MPI_S = 60.0
"""Most seconds of a measurement by MPI."""

NUMELS = (30_000, 114_121, 286_822, 1_535_765)
"""Parameters of the paper's networks (Table 7), and of a smaller one."""

REDUCES = (200, 100, 60, 20)
"""In one measurement, by length."""

SHOWN_NUMEL = 114_121
"""The length whose time is a sample's value."""

GLOO = "MPR-gloo"
FREE_GLOO = "MPR-gloo, threads on all cores"
TABLE_7 = "Table 7 of the paper: 2 GPUs x 2 GMIs, by MRR, train 1.03x to 1.13x as fast as by its baseline"
SHAPES = ((2,), (1, 1), (3,), (2, 1), (1, 1, 1), (4,), (2, 2), (1, 3), (2, 1, 1), (1, 1, 1, 1))
"""GMIs of each device: all ways to place two to four GMIs on devices."""


@contextmanager
def open_two(numel: int, reduces: int, quick: bool) -> Iterator[Sides]:
    """Two GMIs with a core each, which reduce `numel` numbers `reduces` times by each method in turn."""
    from gmi_drl.gmi import claimed
    from gmi_drl.layout.layout import GMI, Device, GmiGroup, Layout

    gmis = tuple(GMI(id=rank, roles=("trainer",), cores=(rank,)) for rank in range(CORES))
    groups = {name: GmiGroup(members=tuple(range(CORES)), reduction=name) for name in SIDES_OF_TWO.values()}
    layout = Layout(devices=(Device(kind="cpu", gmis=gmis),), groups=groups)
    counts = dict.fromkeys(groups, reduces // 4 if quick else reduces)
    numels = dict.fromkeys(groups, numel)
    with claimed([layout], PURPOSE) as claim, reducers(claim, layout, numels, counts) as processes:
        sides: dict[str, Side] = {
            name: partial(_sample_of_two, processes, method) for name, method in SIDES_OF_TWO.items()
        }
        if not quick and not peers.obstacle(PEER, DRIVER):
            sides[MPI] = partial(sample_of_mpi, numel, reduces)
        for warm_up in sides.values():
            warm_up()
        yield sides


def sample_of_mpi(numel: int, reduces: int) -> Sample:
    """The median seconds of Allreduce by MPICH, of two ranks with a core each that are started anew."""
    more = ["--numel", str(numel), "--reduces", str(reduces)]
    sums = peers.train(PEER, num_env=CORES, threads=1, seconds=MPI_S, driver=DRIVER, more=more)
    ends = [0.0, *(one.wall_s for one in sums)]
    seconds = median(end - begin for begin, end in pairwise(ends))
    return Sample(seconds, {"packages": peers.packages(PEER)})


def _sample_of_two(processes: "GMIProcesses", method: str) -> Sample:
    row = reduce(processes, method)
    return Sample(row["median_s"], {"copy_s": row["copy_s"]})


@contextmanager
def open_all(mapping: Sequence[Sequence[int]], quick: bool) -> Iterator[Sides]:
    """GMIs that reduce by each legal method in turn, and others whose gloo may use both cores for its threads."""
    from gmi_drl.gmi import claimed

    names, counts = _legal(mapping), [reduces // 4 if quick else reduces for reduces in REDUCES]
    bound, free = _layout(mapping, names, free=False), _layout(mapping, [GLOO], free=True)
    with (
        claimed([bound, free], PURPOSE) as claim,
        reducers(claim, bound, *_counts(bound, counts)) as ours,
        reducers(claim, free, *_counts(free, counts)) as gloo,
    ):
        sides: dict[str, Side] = {name: partial(_sample, ours, name) for name in names}
        yield sides | {FREE_GLOO: partial(_sample, gloo, GLOO)}


@contextmanager
def reducers(
    claim: "Claim", layout: "Layout", numels: Mapping[str, int], reduces: Mapping[str, int]
) -> Iterator["GMIProcesses"]:
    """The GMIs of a layout, started and ready to reduce in all its groups; ended with the `with` block.

    Args:
        claim: The layout's devices.
        layout: The GMIs and their groups.
        numels: Float32 numbers to reduce, by group.
        reduces: Reduces in one measurement, by group.
    """
    from gmi_drl.launch.open_layout import opened_briefly

    params = {"numels": dict(numels), "reduces": dict(reduces)}
    slot_bytes = 4 * max(numels.values())
    with opened_briefly(claim, layout, ROLE, params, slot_bytes=slot_bytes, hang_s=HANG_S) as processes:
        yield processes


def reduce(processes: "GMIProcesses", group: str) -> dict[str, float]:
    """Have all ranks reduce in a group. Returns what the first rank measured (`Bucket.measure`)."""
    from gmi_drl.errors import GmiError
    from gmi_drl.launch.processes.events import GMIMessage
    from gmi_drl.roles.launcher.protocol import Reduce, Report

    for gmi in processes.layout.gmis:
        processes.send(gmi.id, Reduce(group))
    for event in processes.events(silence_s=HANG_S):
        if isinstance(event, GMIMessage) and isinstance(event.message, Report):
            return event.message.row
    raise GmiError(f"the GMIs ended before they had reduced in {group}")


def _legal(mapping: Sequence[Sequence[int]]) -> list[str]:
    """The legal reductions, MPR-shm first: the others are compared with it."""
    import platform

    from gmi_drl.layout.reductions import legal_reductions

    return [method.name for method in legal_reductions(mapping, "cpu", platform.machine())]


def _layout(mapping: Sequence[Sequence[int]], names: Sequence[str], *, free: bool) -> "Layout":
    """A group for each method and length. Each GMI has one core, or all cores if `free`."""
    from gmi_drl.layout.layout import GMI, Device, GmiGroup, Layout

    def gmi(number: int) -> GMI:
        return GMI(id=number, roles=("trainer",), cores=tuple(range(CORES)) if free else (number % CORES,), threads=1)

    devices = tuple(Device(kind="cpu", index=index, gmis=tuple(map(gmi, gmis))) for index, gmis in enumerate(mapping))
    members = tuple(number for gmis in mapping for number in gmis)
    groups = {_group(name, numel): GmiGroup(members=members, reduction=name) for name in names for numel in NUMELS}
    return Layout(devices=devices, groups=groups, share_cores=free or len(members) > CORES)


def _counts(layout: "Layout", reduces: Sequence[int]) -> tuple[dict[str, int], dict[str, int]]:
    """Float32 numbers, and reduces in a measurement, by group."""
    numels = {name: int(name.rpartition("-")[2]) for name in layout.groups}
    by_length = dict(zip(NUMELS, reduces, strict=True))
    return numels, {name: by_length[numel] for name, numel in numels.items()}


def _sample(processes: "GMIProcesses", name: str) -> Sample:
    seconds = [reduce(processes, _group(name, numel))["median_s"] for numel in NUMELS]
    curves = {"parameters, k": [numel / 1000 for numel in NUMELS], "ms": [1000 * second for second in seconds]}
    return Sample(seconds[NUMELS.index(SHOWN_NUMEL)], {CURVES: curves})


def _group(name: str, numel: int) -> str:
    return f"{name}-{numel}"


def name_of(shape: Sequence[int]) -> str:
    """The name of a shape's case."""
    return "_".join(["reductions", *map(str, shape)])


def mapping_of(shape: Sequence[int]) -> list[list[int]]:
    """Ids of the GMIs on each device, counted from 0."""
    ids = iter(range(sum(shape)))
    return [list(islice(ids, gmis)) for gmis in shape]


def case_of_two(numel: int, reduces: int, guard: float | None = None, floor: float | None = None) -> Case:
    """MPR-shm against MPR-gloo at one length."""
    return Case(
        name=f"reduction_{round(numel / 1000)}k",
        claim=f"Sum of {numel:,} float32 gradients over 2 processes on a core each: shared memory (MPR-shm) against "
        "gloo (MPR-gloo), and Allreduce of MPICH by mpi4py. `copy_s` is a copy of as many bytes within one process.",
        unit="s",
        open=partial(open_two, numel, reduces),
        lower_is_better=True,
        obstacle=_obstacle_of_two,
        limits="gloo's own threads share the two cores with the ranks, which slows gloo down: with idle cores the "
        "ratio may well be smaller. All are for processes of one host. MPI is missing where its environment is "
        "(benchmarks/peers/setup.py mpi); its ranks wait by spinning, as long as they have a core each.",
        repeats=15,
        guard=guard,
        floor=floor,
    )


def _obstacle_of_two() -> str | None:
    from gmi_drl.comm.memory.fence import obstacle as no_fence

    return no_fence("ranks that share memory") or requirements.cores(CORES)


def _case(shape: Sequence[int]) -> Case:
    """Every legal reduction for one shape."""
    mapping = mapping_of(shape)
    shared = "" if sum(shape) <= CORES else f", which share {CORES} cores"
    return Case(
        name=name_of(shape),
        claim=f"Sum of 30,000 to 1,535,765 float32 gradients over {sum(shape)} processes{shared}, on described devices "
        f"{mapping}, by every reduction that is legal there. The figure is for {SHOWN_NUMEL:,}.",
        unit="s",
        open=partial(open_all, mapping),
        lower_is_better=True,
        obstacle=lambda: requirements.cores(CORES),
        reference=TABLE_7 if shape == (2, 2) else "",
        limits="Devices are cores of one host, so links between them are the loopback interface, and shared memory "
        f"joins all. gloo's threads are bound to the core of their rank or, in the last row, free on {CORES}.",
    )


CASES = (
    case_of_two(114_121, 400),
    case_of_two(286_822, 300, guard=2.5, floor=3),
    case_of_two(1_535_765, 100),
    *map(_case, SHAPES),
)
