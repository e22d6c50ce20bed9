"""PPO on a Ray cluster: GMIs that Ray starts, against RLlib on a cluster of the same shape."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import TYPE_CHECKING

from gmi_drl.benchmarks import peers
from gmi_drl.benchmarks.case import Case, Sample, Sides
from gmi_drl.benchmarks.cases.common import requirements
from gmi_drl.benchmarks.cases.common.own_clusters import held_by
from gmi_drl.benchmarks.cases.peers import ppo_ant_v5
from gmi_drl.gmi.inventory import allowed_cores
from gmi_drl.gmi.inventory.core_load import busy_s

if TYPE_CHECKING:
    from gmi_drl.layout.layout import Layout

OURS = {"gmi-drl": "mujoco:Ant-v5", "gmi-drl, gymnasium's environments": "gymnasium:Ant-v5"}
CORES = 2
NUM_ENV = 64
SECONDS, QUICK_SECONDS = 20.0, 15.0
WARM_UP_S, WARM_UP_UPDATES = 2.0, 2


def opener(nodes: int) -> Callable[[bool], AbstractContextManager[Sides]]:
    """The opener of the sides. Each sample starts and ends a cluster of `nodes` nodes."""

    @contextmanager
    def open_sides(quick: bool) -> Iterator[Sides]:
        seconds = QUICK_SECONDS if quick else SECONDS
        ours = {name: partial(measure_ours, task, nodes, seconds) for name, task in OURS.items()}
        yield {**ours, "RLlib": partial(measure_rllib, nodes, seconds)}

    return open_sides


def our_layout(task: str, nodes: int) -> "Layout":
    """A layout with a GMI on each core of each node."""
    from gmi_drl.launch.launchers import layout_for
    from gmi_drl.layout.layout import GmiGroup

    one = layout_for("ray", ppo_ant_v5.our_layout(task, NUM_ENV // nodes, CORES // nodes))
    if nodes == 1:
        return one
    (device,), devices = one.devices, []
    for node in range(nodes):
        gmis = tuple(gmi.model_copy(update={"id": node * len(device.gmis) + gmi.id}) for gmi in device.gmis)
        devices.append(device.model_copy(update={"node": f"node-{node}", "gmis": gmis}))
    groups = {name: GmiGroup(members=tuple(range(CORES)), reduction="HAR") for name in one.groups}
    return one.model_copy(update={"devices": tuple(devices), "groups": groups})


def measure_ours(task: str, nodes: int, seconds: float) -> Sample:
    """A GMI on each core, by `--launcher ray`."""
    from gmi_drl.profiler.session import Session

    layout = our_layout(task, nodes)
    session, each = Session(layout, ppo_ant_v5.our_config(NUM_ENV)), NUM_ENV // CORES
    with held_by("ray", layout) as devices:
        session.start(devices)
        try:
            session.measure(each, WARM_UP_S)
            before_s = busy_s(set(allowed_cores()))
            measured = session.measure(each, seconds)
            cores_s = busy_s(set(allowed_cores())) - before_s
        finally:
            session.close()
    steps = measured.iterations * ppo_ant_v5.SAMPLES
    return Sample(measured.steps_per_second, {"cpu_s_per_million_steps": 1e6 * cores_s / steps})


def measure_rllib(nodes: int, seconds: float) -> Sample:
    """An env runner for each core, the learner in the driver."""
    more = ("--nodes", str(nodes))
    updates = peers.train("rllib", num_env=NUM_ENV, threads=1, seconds=seconds, more=more)
    first, last = updates[WARM_UP_UPDATES - 1], updates[-1]
    each = (last.cores_s - first.cores_s) / (last.env_steps - first.env_steps)
    speed = peers.speed(updates, WARM_UP_UPDATES)
    return Sample(speed, {"cpu_s_per_million_steps": 1e6 * each, "packages": peers.packages("rllib")})


def _obstacle() -> str | None:
    packages = (requirements.package(name, name) for name in ("mujoco", "gymnasium", "ray"))
    unlike = f"it is for {CORES} cores: narrow them (taskset)" if len(allowed_cores()) != CORES else None
    return next(filter(None, [*packages, peers.obstacle("rllib"), unlike]), None)


def case(name: str, nodes: int, shape: str, limits: str) -> Case:
    """The case of a cluster of `nodes` nodes."""
    return Case(
        name=name,
        claim=f"PPO on gymnasium's Ant-v5 on a Ray cluster of {shape}, 64 environments, 2048 samples an update, 4 "
        "epochs of mini-batches of 512, separate networks of 256-128-64, one thread each: two GMIs by `--launcher "
        "ray`, with our batched physics and with gymnasium's environments, against RLlib with two env runners and its "
        "learner in the driver. `cpu_s_per_million_steps` are the seconds for which the cores were busy, with all "
        "processes, also Ray's.",
        unit="steps/s",
        open=opener(nodes),
        obstacle=_obstacle,
        limits=f"{limits} RLlib is built for many runners on many nodes, which this does not show. Its environments "
        "step one after another in each runner (the default of `gym_env_vectorize_mode`), as ours do with the adapter. "
        "gmi-drl normalises observations, RLlib does not. Returns are not compared.",
    )


CASES = (
    case("rllib_cluster", 1, "one node with two cores", "One node of two cores:"),
    case(
        "rllib_cluster_2",
        2,
        "two nodes of one core each",
        "Both nodes are daemons of Ray on one machine, so there is no network between them, processes of RLlib are not "
        "bound to their node's core, and its learner has no core of its own:",
    ),
)
