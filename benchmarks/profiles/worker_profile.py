"""Profiles what each worker does beside physics: an actor's rollout, a policy worker's answers, a trainer's update.

    python benchmarks/profiles/worker_profile.py                      # prints tables
    gmi-drl train benchmarks/profiles/workers.yaml --iterations 300 --run-dir RUN
    python benchmarks/profiles/worker_profile.py --run RUN --picture benchmarks/results/workers.png

Each part runs alone on one core, by cProfile: compare shares only. The picture shows a second of each kind of worker of
a run, by the phases in its rows.
"""

import argparse
import cProfile
import os
import pstats
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from statistics import median
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import torch

from gmi_drl.algo.experience_batch import ExperienceBatch
from gmi_drl.algo.rollout import Rollout
from gmi_drl.comm.memory.mailbox_memory import create_mailboxes
from gmi_drl.comm.memory.segment import create_empty
from gmi_drl.comm.reductions.single import NoReduction
from gmi_drl.comm.streams import StreamClient, StreamServer, StreamSizes, join_stream
from gmi_drl.comm.streams.inline import InlineStream
from gmi_drl.config.learners import PPOConfig
from gmi_drl.config.run_config import RunConfig
from gmi_drl.roles.main import die_with
from gmi_drl.roles.serving.player import new_actor_critic
from gmi_drl.roles.training.clock import PhaseClock
from gmi_drl.roles.training.iteration_stats import IterationStats
from gmi_drl.roles.workers.forward import Forward, kinds_of
from gmi_drl.roles.workers.policy import serve
from gmi_drl.roles.workers.ring import Ring
from gmi_drl.roles.workers.trainer import ChannelPPO
from gmi_drl.run.metrics import read_metrics
from gmi_drl.tasks import make

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CPU = torch.device("cpu")
TASK, NUM_ENV, RING = "ball_balance", 16, 2
ROUNDS, WARM_UP, REQUESTS = 20, 3, 2_000
SHOWN = 12
HANG_S = 60.0
CONFIG = RunConfig(learner=PPOConfig(hidden=(64, 64), horizon=32, epochs=1, minibatches=4))

Costs = list[tuple[str, float]]
"""Functions with the seconds of their own time in a call, the largest first."""


def actor() -> Costs:
    """A rollout of an actor that acts for itself."""
    tasks = [make(TASK, num_env=NUM_ENV // RING, device="cpu", seed=n, threads=1) for n in range(RING)]
    spec, forward = tasks[0].spec, Forward()
    agent, _ = new_actor_critic(spec, CONFIG, CPU)
    form = CONFIG.learner.rollout_form(spec, NUM_ENV)

    def respond(what: int, requests: Any, answers: Any) -> int:
        forward(agent, what, requests, answers)
        return 0

    stream = InlineStream(*kinds_of(spec, form, RING), RING, respond)
    ring = Ring(tasks, stream, CONFIG.learner, torch.Generator().manual_seed(0), lambda: 0)  # type: ignore[arg-type]
    slot: Any = SimpleNamespace(rollout=Rollout(form, CPU))
    clock = PhaseClock(CPU)
    clock.start()
    return watched(lambda: ring.collect(slot, clock, lambda t: None), ROUNDS)


def policy_worker() -> Costs:
    """An answer to one member of a ring of another process on the same core."""
    with closing(make(TASK, num_env=NUM_ENV, device="cpu", seed=0, threads=1)) as task:
        spec = task.spec
    agent, _ = new_actor_critic(spec, CONFIG, CPU)
    kinds = kinds_of(spec, CONFIG.learner.rollout_form(spec, NUM_ENV), RING)
    sizes = StreamSizes(*kinds, NUM_ENV // RING, (0,), ((1,),), RING)
    versions: Any = SimpleNamespace(at_least=lambda version: (agent, version), wait_s=0.0)
    with asking(sizes) as server:
        profile = cProfile.Profile()
        profile.runcall(serve, server, versions, Forward())
    return costs(profile, REQUESTS)


@contextmanager
def asking(sizes: StreamSizes) -> Iterator[StreamServer]:
    """A server, and a child process that asks for all members in turn."""
    mailboxes, memory, parent = create_mailboxes([0, 1]), create_empty("gmi-drl-profile"), os.getpid()
    if not (child := os.fork()):
        try:
            die_with(parent)
            client = StreamClient(*join_stream(memory, mailboxes, 1, sizes, HANG_S))
            for number in range(REQUESTS):
                member = number % sizes.members
                if number >= sizes.members:
                    client.take(member)
                client.post(member)
            for member in range(sizes.members):
                client.take(member)
            client.close()
        finally:
            os._exit(0)
    with closing(StreamServer(*join_stream(memory, mailboxes, 0, sizes, HANG_S), wait_s=0.0)) as server:
        yield server
    os.waitpid(child, 0)
    mailboxes.close()
    os.close(memory)


def trainer() -> Costs:
    """An update of a trainer from a batch of one rollout."""
    with closing(make(TASK, num_env=NUM_ENV, device="cpu", seed=0, threads=1)) as task:
        spec = task.spec
    learner = ChannelPPO(spec, CONFIG, NoReduction(device=CPU), device=CPU, seed=0)
    batch = ExperienceBatch.empty(CONFIG.learner.rollout_form(spec, NUM_ENV), 1, CPU)
    batch.obs.normal_()
    batch.action.normal_()
    batch.valid.fill_(1)

    def update() -> None:
        learner.take(batch, 0)
        learner.learn(IterationStats.from_sums(0.0, batch.sums[0], batch.delta))

    return watched(update, ROUNDS)


def watched(call: Callable[[], object], rounds: int) -> Costs:
    """The costs of a call."""
    for _ in range(WARM_UP):
        call()
    with cProfile.Profile() as profile:
        for _ in range(rounds):
            call()
    return costs(profile, rounds)


def costs(profile: cProfile.Profile, count: int) -> Costs:
    """Own seconds of each function in one of so many calls, the largest first."""
    stats: Any = pstats.Stats(profile)
    found = [(f"{Path(file).name} {name}", own_s / count) for (file, _, name), (_, _, own_s, *_) in stats.stats.items()]
    return sorted(found, key=lambda one: -one[1])


WORKERS: dict[str, Callable[[], Costs]] = {
    "actor, a rollout": actor,
    "policy worker, an answer": policy_worker,
    "trainer, an update": trainer,
}

PHASES = {
    "actor": {
        "sim_s": "simulate",
        "act_s": "act, or wait for answers",
        "fetch_s": "version",
        "wait_s": "wait for a place",
    },
    "policy worker": {"requests_wait_s": "wait for requests", "versions_wait_s": "wait for versions"},
    "trainer": {"learn_s": "learn", "sync_s": "exchange, or wait for rollouts", "publish_s": "publish"},
}


def second_of(run: Path) -> dict[str, dict[str, float]]:
    """The part of a second that each worker spends in each phase: medians over the rows of a run."""
    rows = read_metrics(run / "metrics.jsonl")[1:]
    told = {}
    for worker, phases in PHASES.items():
        spent = {what: median(row.get(name) or 0.0 for row in rows) for name, what in phases.items()}
        if worker == "policy worker":  # its rollout lasts as long as the actor's
            whole = median((row.get("sim_s") or 0.0) + (row.get("act_s") or 0.0) for row in rows)
            spent = {"answer": max(0.0, whole - sum(spent.values())), **spent}
        total = sum(spent.values())
        told[worker] = {what: seconds / total for what, seconds in spent.items()} if total else {}
    return told


def draw(told: dict[str, dict[str, float]]) -> "Figure":
    """A bar for each worker."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 1.2 + 0.6 * len(told)), layout="constrained")
    axis = figure.subplots()
    for row, phases in enumerate(told.values()):
        left = 0.0
        for number, (what, part) in enumerate(phases.items()):
            color = "lightgray" if "wait" in what else f"C{number}"
            axis.barh(row, part, left=left, color=color, edgecolor="white")
            if part > 0.06:
                axis.text(left + part / 2, row, f"{what}\n{part:.0%}", ha="center", va="center", fontsize=7)
            left += part
    axis.set_yticks(range(len(told)), list(told))
    axis.invert_yaxis()
    axis.set_xlabel("part of a second")
    return figure


def main() -> None:
    """Print the costs, or draw a run."""
    parser = argparse.ArgumentParser(description="Profiles what each worker does.")
    parser.add_argument("--run", type=Path, help="a run folder of the template workers")
    parser.add_argument("--picture", type=Path, help="the picture of a second of it")
    given = parser.parse_args()
    if given.run and given.picture:
        draw(second_of(given.run)).savefig(given.picture, dpi=130)
        return
    torch.set_num_threads(1)
    for name, watch in WORKERS.items():
        found = watch()
        whole = sum(seconds for _, seconds in found)
        print(f"{name}: {1e6 * whole:.0f} us by cProfile")
        for what, seconds in found[:SHOWN]:
            print(f"  {seconds / whole:6.1%} {1e6 * seconds:9.1f} us  {what}")


if __name__ == "__main__":
    main()
