"""PPO on four tasks by every stream: inference near, far and inline, samples near and far, against TCG_EX.

    python benchmarks/peers/setup.py sb3_games                                 # MinAtar is in its environment
    python benchmarks/time_to_return/every_stream.py learn                     # continues where it was stopped
    python benchmarks/time_to_return/every_stream.py learn CartPole --seeds 1 --seconds 30      # a trial
    python benchmarks/time_to_return/every_stream.py tell
    python benchmarks/time_to_return/every_stream.py draw

One actor and one trainer, `max_lag` 1. The last tenth of each side is to be within the range of TCG_EX's seeds. Far
hosts are supervisors of this machine, joined by its loopback. How runs are counted: `trainings.py`; CPU seconds are of
all processes, from the first update on. MinAtar's Breakout and our Ant have the sides that differ most. CartPole
without velocities is learnt by a GRU, whose state comes with each request: inference inline and by a policy worker.
"""

import os
import sys
from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from typing import Any

import minatar_games
from trainings import OURS, Settings, Trainings, Update, by_ours, our_config
from worker_trainings import ACTS, ANSWERS, INLINE, TRAINS, by_layout, layout_of

from gmi_drl.benchmarks.cases.learning import memories
from gmi_drl.benchmarks.peers import REPOSITORY

NAMES = {
    "CartPole-v1": "gymnasium:CartPole-v1",
    "MinAtar/Breakout-v1": "gymnasium:gmi_drl_minatar:MinAtar/Breakout-v1",
    "ant": "ant",
    memories.ENVIRONMENT: f"gymnasium:{memories.ENVIRONMENT}",
}
"""Ours, by those of the settings."""

MINATAR = REPOSITORY / "examples" / "gmi_drl_minatar"
"""Has the module that registers MinAtar's games."""

SIDES = {
    "inline, near": [[INLINE, TRAINS]],
    "inline, far": [[TRAINS], [INLINE]],
    "remote, near": [[ACTS, ANSWERS, TRAINS]],
    "remote, far samples": [[TRAINS], [ACTS, ANSWERS]],
    "remote, far requests": [[ACTS], [ANSWERS, TRAINS]],
    "remote, all far": [[ACTS], [ANSWERS], [TRAINS]],
}
"""The workers of each host."""

IN_PART = {"remote, far samples", "remote, far requests"}
"""Sides of CartPole alone."""

GRU_SIDES = {"inline, near", "remote, near"}
"""Those of the task with a memory."""

PEER = "sb3_games"
MAX_LAG = 1
TASKS = {
    "CartPole": Settings(
        "CartPole-v1",
        100_000,
        475,
        num_env=8,
        horizon=32,
        batch=256,
        epochs=20,
        learning_rate=1e-3,
        gamma=0.98,
        lam=0.8,
    ),
    "Breakout": replace(minatar_games.TASKS["Breakout"], steps=300_000, threshold=4.5),
    "Ant": Settings(
        "ant", 1_000_000, 1000, num_env=64, horizon=32, batch=512, epochs=5, learning_rate=5e-4, hidden=(128, 64)
    ),
    "HiddenCartPole": Settings(
        memories.ENVIRONMENT, memories.STEPS, 475, num_env=memories.NUM_ENV, horizon=memories.HORIZON
    ),
}


def config_of(settings: Settings, seed: int) -> Any:
    """The settings as ours; where a memory is needed those of the case `learning_memories`."""
    if settings.env_id != memories.ENVIRONMENT:
        return our_config(settings, seed)
    iterations = -(-settings.steps // settings.samples)  # its learning rate falls until the last
    return memories.config_of("gru").model_copy(update={"seed": seed, "iterations": iterations})


def train(settings: Settings, side: str, seed: int) -> Iterator[Update]:
    """Train by a side."""
    name, config = NAMES[settings.env_id], config_of(settings, seed)
    if side == OURS:
        from gmi_drl.tasks import make

        return by_ours(settings, seed, lambda seed: make(name, num_env=settings.num_env, seed=seed), config)
    return by_layout(settings, layout_of(name, settings.num_env, SIDES[side], MAX_LAG), config)


TRAININGS = Trainings(
    __file__,
    "every_stream",
    TASKS,
    (OURS, *SIDES),
    train,
    without={*product(("Breakout", "Ant"), IN_PART), *product(["HiddenCartPole"], SIDES.keys() - GRU_SIDES)},
    peer=PEER,
)

if __name__ == "__main__":
    paths = (str(MINATAR), os.environ.get("PYTHONPATH", ""))
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, paths))  # for processes of GMIs
    sys.path.append(str(MINATAR))
    TRAININGS.main(__doc__.splitlines()[0])
