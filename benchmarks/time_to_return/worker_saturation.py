"""Where the services of workers would be full on SRL's cluster: computed from what `worker_scaling.py` has measured.

Nothing is run. `worker_scaling.py saturation` writes it.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from resumable import Run

from gmi_drl.config.learners import PPOConfig
from gmi_drl.files import load_yaml
from gmi_drl.hardware.cluster import Cluster, Network
from gmi_drl.scheduler.worker_cluster import ClusterSplit, Kind, Share, Sizes
from gmi_drl.scheduler.worker_loads import Load, links, loads
from gmi_drl.scheduler.worker_rates import GpuRates, Services, WorkerRates
from gmi_drl.units import counted, human_count
from gmi_drl.workload import TASK_SPECS, TaskSpec
from gmi_drl.workload.spaces import Observation, categorical, image, vector

CLUSTER = Path(__file__).parents[2] / "examples" / "clusters" / "srl.yaml"
TRAINING, ACTING = Share(actors=120, policies=0, trainers=8), Share(actors=179, policies=1, trainers=0)
"""Of each machine with eight GPUs, and of each with one."""

RING = 2
AT_ONCE, NO_WAIT = 1e-12, Network(gbit_per_s=1e9, round_trip_ms=0.0)
"""Seconds of what must not hold actors up, and a network that does not."""


@dataclass(frozen=True)
class Game:
    """An environment of SRL's Table 1.

    Args:
        name: As there.
        cores: In the row in which both systems have as many.
        frames_per_second: Of these cores.
        skip: Frames of a step.
        seen: An observation: the usual one of the game, which the paper does not tell.
        actions: The number of actions.
    """

    name: str
    cores: int
    frames_per_second: int
    skip: int
    seen: Observation
    actions: int

    @property
    def step_s(self) -> float:
        """Seconds of one core for a step."""
        return self.cores * self.skip / self.frames_per_second

    @property
    def task(self) -> TaskSpec:
        """Its sizes."""
        return replace(TASK_SPECS["ant"], observation=self.seen, action=categorical(self.actions))


GAMES = (
    Game("Pong", 96, 150_288, 4, image(4, 84, 84), 6),
    Game("watermaze", 160, 65_768, 4, image(3, 72, 96), 9),
    Game("11_vs_11", 700, 18_988, 1, vector(115), 19),
    Game("27m_vs_30m", 200, 4_943, 1, vector(285 * 27), 36),
)


def costs_of(runs: Sequence[Run], fitted: Callable[[Sequence[Run]], dict[str, float]]) -> Services:
    """The costs, without hope: of a request with the most clients, of a version all that its proxy did meanwhile."""
    light = max((run for run in runs if run["kind"] == "light"), key=lambda run: run["count"])
    proxies = [run["cpu_s"]["proxy_main"] / run["updates"] for run in runs if run["kind"] == "actors"]
    request_s = light["cpu_us"] / 1e6
    return Services(**{**fitted(runs), "request_s": request_s, "far_request_s": request_s, "version_s": min(proxies)})


def split_of(game: Game, num_env: int, horizon: int, cluster: Cluster) -> ClusterSplit:
    """The cluster with an actor on each core that no policy worker or trainer has. Nothing holds actors up."""
    gpu = GpuRates(answers={1: AT_ONCE}, update_s=AT_ONCE)
    step_s = num_env * game.step_s
    rates = WorkerRates(num_env=num_env, step_s=step_s, answers={1: AT_ONCE}, update_s=AT_ONCE, trip_s=AT_ONCE, gpu=gpu)
    kinds = tuple(
        Kind(part.kind.name, part.count, part.kind.cpu.cores, part.kind.num_gpus, rates) for part in cluster.nodes
    )
    learner, task = PPOConfig(horizon=horizon), game.task
    sizes = Sizes(
        step_bytes=learner.rollout_form(task, num_env).nbytes / (num_env * horizon),
        request_bytes=learner.request_bytes(task),
        answer_bytes=learner.answer_bytes(task),
        version_bytes=learner.bucket_bytes(task),
        horizon=horizon,
        rollouts_of=learner.rollouts_of,
        sums_s=lambda hosts: 0.0,
    )
    return ClusterSplit(kinds, (TRAINING, ACTING), RING, inline=False, network=NO_WAIT, sizes=sizes)


def loads_of(split: ClusterSplit, costs: Services, network: Network) -> list[Load]:
    """How busy each service and the busiest link would be if actors waited for nothing, the busiest first."""
    most = max(links(split, split.asked), key=lambda link: link.most)
    part = most.most / network.speed.bytes_per_second
    found = [*loads(split, costs), Load(f"the link of a machine ({most.kind})", part, split.actors / part)]
    return sorted(found, key=lambda load: -load.part)


def told(costs: Services, num_env: int, horizon: int) -> Iterator[str]:
    """The table, line by line."""
    cluster = load_yaml(Cluster, CLUSTER)
    splits = {game: split_of(game, num_env, horizon, cluster) for game in GAMES}
    first = splits[GAMES[0]]
    yield "Computed from measured.jsonl by the formulas of a plan (gmi_drl/scheduler/worker_loads.py). Nothing was run."
    yield ""
    yield "The cluster of SRL's section 3 (examples/clusters/srl.yaml), with inference by policy workers:"
    for kind, share in first.parts:
        parts = ((share.actors, "actor"), (share.policies, "policy worker"), (share.trainers, "trainer"))
        each = " and ".join(counted(count, what) for count, what in parts if count)
        yield f"  {kind.count} x {kind.name}, each {each}"
    yield f"  {first.actors} actors of {num_env} environments in rings of {RING}, rollouts of {horizon} steps"
    yield ""
    yield "What was measured, on two shared cores of a virtual machine, for a few kB each time; images take more:"
    yield f"  {1e6 * costs.request_s:7.1f} us  a request of a policy worker, without its forward pass (1,000 clients)"
    yield f"  {1e6 * costs.rollout_s:7.1f} us  a rollout, in the process that receives all of a machine"
    yield f"  {1e6 * costs.version_s:7.1f} us  a version of the policy for a reader on another machine, at most"
    yield f"  {1e6 * costs.beat_s:7.1f} us  a GMI, of the launcher in each second (1 to 8 actors)"
    yield ""
    yield "Step: seconds of a core by Table 1, the row with equal cores. Busy: of one core, or of a link of 100 Gbit/s,"
    yield "if these actors waited for nothing. Full with: as many actors on these machines. The paper does not tell the"
    yield "observations. Taken are the usual ones: 4 x 84 x 84 bytes of Pong, 3 x 72 x 96 of watermaze; 115 and"
    yield "27 x 285 numbers of the others."
    yield ""
    yield f"{'environment':12} {'step':>8}  {'service':44} {'busy':>7}  full with"
    for game, split in splits.items():
        for number, load in enumerate(loads_of(split, costs, cluster.network)):
            name, step = (game.name, f"{1e3 * game.step_s:.2f} ms") if number == 0 else ("", "")
            yield f"{name:12} {step:>8}  {load.service:44} {load.part:7.1%}  {human_count(load.saturated)} actors"
