"""PPO on a Ray cluster: GMIs that Ray starts, against RLlib on a cluster of the same shape."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

from gmi_drl.bench import peers
from gmi_drl.bench.case import Case, Sample, Sides
from gmi_drl.bench.cases import needs, ppo_ant_v5
from gmi_drl.bench.cases.ray_overhead import held_by
from gmi_drl.bench.machine import busy_s
from gmi_drl.gmi.inventory import allowed_cores

OURS = {"gmi-drl": "mujoco:Ant-v5", "gmi-drl, gymnasium's environments": "gymnasium:Ant-v5"}
CORES = 2
NUM_ENV = 64
SECONDS, QUICK_SECONDS = 20.0, 15.0
WARM_UP_S, WARM_UP_UPDATES = 2.0, 2


@contextmanager
def open_sides(quick: bool) -> Iterator[Sides]:
    """Both start their cluster for each sample, and end it."""
    seconds = QUICK_SECONDS if quick else SECONDS
    ours = {name: partial(measure_ours, task, seconds) for name, task in OURS.items()}
    yield {**ours, "RLlib": partial(measure_rllib, seconds)}


def measure_ours(task: str, seconds: float) -> Sample:
    """A GMI on each core, by `--launcher ray`."""
    from gmi_drl.launch.launchers import layout_for
    from gmi_drl.profiler.session import Session

    layout = layout_for("ray", ppo_ant_v5.our_layout(task, NUM_ENV, CORES))
    session, each = Session(layout, ppo_ant_v5.our_config(NUM_ENV)), NUM_ENV // CORES
    with held_by("ray", layout) as laying:
        session.start(laying)
        try:
            session.measure(each, WARM_UP_S)
            before_s = busy_s(set(allowed_cores()))
            measured = session.measure(each, seconds)
            cores_s = busy_s(set(allowed_cores())) - before_s
        finally:
            session.close()
    steps = measured.iterations * ppo_ant_v5.SAMPLES
    return Sample(measured.steps_per_second, {"cpu_s_per_million_steps": 1e6 * cores_s / steps})


def measure_rllib(seconds: float) -> Sample:
    """An env runner for each core, the learner in the driver."""
    updates = peers.train("rllib", num_env=NUM_ENV, threads=1, seconds=seconds)
    first, last = updates[WARM_UP_UPDATES - 1], updates[-1]
    each = (last.cores_s - first.cores_s) / (last.env_steps - first.env_steps)
    speed = peers.speed(updates, WARM_UP_UPDATES)
    return Sample(speed, {"cpu_s_per_million_steps": 1e6 * each, "packages": peers.packages("rllib")})


def _obstacle() -> str | None:
    packages = (needs.package(name, name) for name in ("mujoco", "gymnasium", "ray"))
    unlike = f"it is for {CORES} cores: narrow them (taskset)" if len(allowed_cores()) != CORES else None
    return next(filter(None, [*packages, peers.obstacle("rllib"), unlike]), None)


CASE = Case(
    name="rllib_cluster",
    claim="PPO on gymnasium's Ant-v5 on a Ray cluster of one node with two cores, 64 environments, 2048 samples an "
    "update, 4 epochs of mini-batches of 512, separate networks of 256-128-64, one thread each: two GMIs by "
    "`--launcher ray`, with our batched physics and with gymnasium's environments, against RLlib with two env runners "
    "and its learner in the driver. `cpu_s_per_million_steps` are the seconds for which the cores were busy, of all "
    "processes, Ray's too.",
    unit="steps/s",
    open=open_sides,
    obstacle=_obstacle,
    limits="One node of two cores: what RLlib is built for, many runners on many nodes, is not shown. Its environments "
    "are stepped one after the other in each runner (`gym_env_vectorize_mode`'s default), as ours by the adapter. "
    "gmi-drl normalises observations, RLlib does not. Returns are not compared.",
)
