"""Where the time of both modes of channels goes, of an agent and of the trainer: stand-ins that only send and take.

    python benchmarks/channel_profile.py anymal benchmarks/results/channel_profile.txt

They are those of `gmi-drl bench table_8_most_anymal`. Microseconds of a rollout by Python's cProfile, which makes calls
dearer than they are and so records more than copies: shares can be compared, sums are less without it.
"""

import cProfile
import os
import pstats
import sys
from contextlib import closing
from functools import partial
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path

from gmi_drl.bench.cases.stand_ins import Rates, StandIns, act_on, actor
from gmi_drl.bench.cases.table_8_stand_in import MODES, rates_of
from gmi_drl.bench.cores import all_cores
from gmi_drl.comm.channels import AgentEnd
from gmi_drl.gmi.inventory import allowed_cores

ROLLOUTS, WARM_UP = 200, 20
SECONDS = 3.0
PARTS = {
    "copies": ("method 'copy_'",),
    "waiting": ("method 'poll'",),
    "records": (
        "ring.py",
        "fence.py",
        "dispenser.py",
        "batcher.py",
        "device_batches.py",
        "pack_into",
        "unpack_from",
        "(_send)",
        "(_take_in)",
        "(_look)",
    ),
    "bells": ("bells.py", "waiting.py", "eventfd"),
    "locks": ("lock.py", "flock"),
    "leases": ("leases.py", "(lease)", "(_is_served)", "(_views_of)"),
    "parameters": ("parameters.py",),
    "stand-in": ("channel_ends.py", "stand_ins.py"),
}
"""What belongs to a part: any of these is in the file, the line or the name of a function."""

Told = dict[str, float]


def parts_of(profile: cProfile.Profile) -> Told:
    """Seconds by part, each function's own time; what belongs to none is the rest."""
    told = dict.fromkeys((*PARTS, "rest"), 0.0)
    for (file, _, name), (_, _, own_s, *_) in pstats.Stats(profile).stats.items():  # type: ignore[attr-defined]
        text = f"{Path(file).name} ({name})"
        told[next((part for part, marks in PARTS.items() if any(mark in text for mark in marks)), "rest")] += own_s
    return told


def watched(end: AgentEnd, rates: Rates, answers: Connection) -> None:
    """Act as every agent does, and tell where the time of that went."""
    act = actor(end, rates)
    for _ in range(WARM_UP):
        act()
    with cProfile.Profile() as profile:
        for _ in range(ROLLOUTS):
            act()
    answers.send({part: seconds / ROLLOUTS for part, seconds in parts_of(profile).items()})
    act_on(end, rates)


def both_ends(mode: str, task: str, core: int) -> dict[str, Told]:
    """Seconds of a rollout by part, of an agent, on this core, and of the trainer."""
    rates = rates_of(task, "most")
    answers, theirs = Pipe()
    with closing(StandIns(rates, mode, core, partial(watched, answers=theirs))) as stand_ins:
        while not answers.poll():
            stand_ins.learn(0.1)
        agent: Told = answers.recv()
        with cProfile.Profile() as profile:
            updates = stand_ins.learn(SECONDS)
        trainer = {part: own_s / updates / rates.agents for part, own_s in parts_of(profile).items()}
    return {f"{mode}, agent": agent, f"{mode}, trainer": trainer}


def table(told: dict[str, Told]) -> str:
    """A line for each end, in microseconds of a rollout."""
    names = [*PARTS, "rest", "all"]
    lines = ["".join([f"{'us of a rollout':<16}", *(f"{name:>12}" for name in names)])]
    for end, parts in told.items():
        values = [*parts.values(), sum(parts.values())]
        lines.append("".join([f"{end:<16}", *(f"{1e6 * value:>12.0f}" for value in values)]))
    return "\n".join(lines) + "\n"


def main() -> None:
    """Watch both modes."""
    task, target = sys.argv[1:]
    told: dict[str, Told] = {}
    with all_cores():
        ours, theirs, *_ = allowed_cores()
        os.sched_setaffinity(0, [ours])
        for mode in MODES:
            told |= both_ends(mode, task, theirs)
    text = table(told)
    print(text, end="")
    Path(target).write_text(text)


if __name__ == "__main__":
    main()
