"""SAC on HalfCheetah with and without recorded episodes in its batches: steps to a return of 0 (RLPD).

    python benchmarks/time_to_return/recorded_episodes.py record mujoco:HalfCheetah-v5 --seconds 900    # the episodes
    python benchmarks/time_to_return/offline_share.py learn                     # continues where it was stopped
    python benchmarks/time_to_return/offline_share.py learn --seeds 1 --seconds 60      # a trial
    python benchmarks/time_to_return/offline_share.py tell
    python benchmarks/time_to_return/offline_share.py draw

The settings are those of `gmi-drl bench sac_half_cheetah`. Half of each batch is of the expert's episodes on two sides;
two sides have layer normalisation, which RLPD adds. How runs are counted: `trainings.py`. Seeds were fixed before the
first run.
"""

from collections.abc import Iterator
from typing import Any

from recorded_episodes import FOLDER, name_of
from trainings import OURS, Settings, Trainings, Update, by_ours

from gmi_drl.benchmarks.cases.peers.off_policy import DUELS, NUM_ENV

SHARE = 0.5
RECORDED, NORMED = "half of each batch recorded", "layer norm"
BOTH = f"{RECORDED}, {NORMED}"
DUEL = DUELS["sac_half_cheetah"]
TASKS = {"HalfCheetah": Settings(DUEL.task, 40_000, 0, num_env=NUM_ENV, horizon=DUEL.config(1, 1).learner.horizon)}


def train(settings: Settings, side: str, seed: int) -> Iterator[Update]:
    """Train by a side."""
    from gmi_drl.tasks import make

    config = config_of(settings, side, seed)
    return by_ours(settings, seed, lambda seed: make(DUEL.task, num_env=settings.num_env, seed=seed), config)


def config_of(settings: Settings, side: str, seed: int) -> Any:
    """The configuration of a side."""
    config = DUEL.config(settings.steps, seed)
    learner: Any = config.learner
    learner = learner.model_copy(update={"layer_norm": side in (NORMED, BOTH)})
    if side in (RECORDED, BOTH):
        more = {"data": str((FOLDER / name_of(DUEL.task) / "expert.replay").resolve()), "offline_share": SHARE}
        learner = learner.model_copy(update={"replay": learner.replay.model_copy(update=more)})
    return config.model_copy(update={"learner": learner})


TRAININGS = Trainings(__file__, "offline_share", TASKS, (OURS, RECORDED, NORMED, BOTH), train)

if __name__ == "__main__":
    TRAININGS.main(__doc__.splitlines()[0])
