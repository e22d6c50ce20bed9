"""Training of a task of mjlab by gmi-drl and by mjlab itself, with mjlab's configuration and rsl-rl-lib's runner."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial

from gmi_drl.benchmarks import peers
from gmi_drl.benchmarks.case import Case, Sample, Sides
from gmi_drl.benchmarks.cases.common import requirements

PEER = "mjlab"
TASK = "Mjlab-Velocity-Flat-Unitree-Go1"
NUM_ENV = 64
SECONDS, QUICK_SECONDS = 60.0, 20.0
WARM_UP_UPDATES = 1

Setting = tuple[int, int]
"""GMIs (0 for mjlab itself) and cores."""

ONE_CORE = {"gmi-drl": (1, 1), "mjlab": (0, 1)}
TWO_CORES = {"gmi-drl": (2, 2), "mjlab, 2 cores": (0, 2), "mjlab, 1 core": (0, 1)}


@contextmanager
def open_sides(settings: Mapping[str, Setting], quick: bool) -> Iterator[Sides]:
    """The sides with these settings. Each sample is a training from scratch."""
    yield {side: partial(measure, setting, QUICK_SECONDS if quick else SECONDS) for side, setting in settings.items()}


def measure(setting: Setting, seconds: float) -> Sample:
    """Environment steps per second after the warm-up."""
    gmis, cores = setting
    more = ["--task", TASK, "--gmis", str(gmis)]
    updates = peers.train(PEER, num_env=NUM_ENV, threads=cores, seconds=seconds, more=more)
    return Sample(peers.speed(updates, WARM_UP_UPDATES), {"updates": len(updates), "packages": peers.packages(PEER)})


def case(name: str, settings: Mapping[str, Setting], what: str, limits: str) -> Case:
    """The case of one number of cores."""
    cores = max(cores for _, cores in settings.values())
    return Case(
        name=name,
        claim=f"mjlab's {TASK} with {NUM_ENV} environments in all on a CPU, with mjlab's own configuration and "
        f"rsl-rl-lib's runner: environment steps per second while training, {what}.",
        unit="steps/s",
        open=partial(open_sides, settings),
        obstacle=lambda: peers.obstacle(PEER) or requirements.cores(cores),
        limits=f"{limits}mjlab is made for GPUs, on which many more environments fit; this figure does not apply to "
        "them. gmi-drl writes checkpoints and metrics meanwhile, mjlab writes nothing.",
    )


CASES = (
    case("mjlab_1_core", ONE_CORE, "a GMI against mjlab itself, on one core", "It is the overhead of gmi-drl. "),
    case(
        "mjlab_2_cores",
        TWO_CORES,
        "two GMIs of a core each against mjlab itself with both cores, and with one",
        "On a CPU Warp runs its kernels on one core, so a second core helps mjlab only in torch. ",
    ),
)
