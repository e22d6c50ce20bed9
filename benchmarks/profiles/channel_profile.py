"""Profiles an agent and the trainer in both modes of channels, with dummies that only send and receive.

    python benchmarks/profiles/channel_profile.py anymal benchmarks/results/channel_profile.txt

The dummies are those of `gmi-drl bench table_8_most_anymal`. Prints microseconds per rollout, by `profile_parts`.
"""

import cProfile
import os
import sys
from contextlib import closing
from functools import partial
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path

from profile_parts import Parts, Told, parts_of, table

from gmi_drl.benchmarks.cases.paper.table_8_agents import Dummies, Rates, act_on, actor
from gmi_drl.benchmarks.cases.paper.table_8_dummies import MODES, rates_of
from gmi_drl.benchmarks.cores import all_cores
from gmi_drl.comm.channels import AgentEnd
from gmi_drl.gmi.inventory import allowed_cores

ROLLOUTS, WARM_UP = 200, 20
SECONDS = 3.0
PARTS: Parts = {
    "copies": ("method 'copy_'",),
    "waiting": ("method 'poll'",),
    "records": (
        "record_ring.py",
        "fence.py",
        "dispenser.py",
        "batcher.py",
        "batches.py",
        "pack_into",
        "unpack_from",
        "(_send)",
        "(_read_records)",
        "(_process_events)",
    ),
    "notifiers": ("notify.py", "wait_clock.py", "eventfd"),
    "locks": ("shared_lock.py", "flock"),
    "leases": ("leases.py", "(lease)", "(_next_lease)", "(_is_served)", "(_views_of)"),
    "parameters": ("shared_memory.py",),
    "dummy": ("channel_ends.py", "table_8_agents.py"),
}


def watched(end: AgentEnd, rates: Rates, answers: Connection) -> None:
    """Act as every agent does, and send the profile of it."""
    act = actor(end, rates)
    for _ in range(WARM_UP):
        act()
    with cProfile.Profile() as profile:
        for _ in range(ROLLOUTS):
            act()
    answers.send(parts_of(profile, PARTS, ROLLOUTS))
    act_on(end, rates)


def both_ends(mode: str, task: str, core: int) -> dict[str, Told]:
    """Seconds per rollout by part: of an agent, on this core, and of the trainer."""
    rates = rates_of(task, "most")
    answers, theirs = Pipe()
    with closing(Dummies(rates, mode, core, partial(watched, answers=theirs))) as dummies:
        while not answers.poll():
            dummies.learn(0.1)
        agent: Told = answers.recv()
        with cProfile.Profile() as profile:
            updates = dummies.learn(SECONDS)
        trainer = parts_of(profile, PARTS, updates * rates.agents)
    return {f"{mode}, agent": agent, f"{mode}, trainer": trainer}


def main() -> None:
    """Profile both modes."""
    task, target = sys.argv[1:]
    told: dict[str, Told] = {}
    with all_cores():
        ours, theirs, *_ = allowed_cores()
        os.sched_setaffinity(0, [ours])
        for mode in MODES:
            told |= both_ends(mode, task, theirs)
    text = table("us of a rollout", told)
    print(text, end="")
    Path(target).write_text(text)


if __name__ == "__main__":
    main()
