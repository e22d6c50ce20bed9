"""PPO on CartPole by every stream: inference near, far and inline, samples near and far, against TCG_EX.

    python benchmarks/time_to_return/every_stream.py learn                     # continues where it was stopped
    python benchmarks/time_to_return/every_stream.py learn --seeds 1 --seconds 30      # a trial
    python benchmarks/time_to_return/every_stream.py tell
    python benchmarks/time_to_return/every_stream.py draw

One actor and one trainer, `max_lag` 1. The last tenth of each side is to be within the range of TCG_EX's seeds. Far
hosts are supervisors of this machine, joined by its loopback. How runs are counted: `trainings.py`; CPU seconds are of
all processes, from the first update on.
"""

from collections.abc import Iterator

from trainings import OURS, Settings, Trainings, Update, by_ours, our_config
from worker_trainings import ACTS, ANSWERS, INLINE, TRAINS, by_layout, layout_of

NAME = "gymnasium:CartPole-v1"
SIDES = {
    "inline, near": [[INLINE, TRAINS]],
    "inline, far": [[TRAINS], [INLINE]],
    "remote, near": [[ACTS, ANSWERS, TRAINS]],
    "remote, far samples": [[TRAINS], [ACTS, ANSWERS]],
    "remote, far requests": [[ACTS], [ANSWERS, TRAINS]],
    "remote, all far": [[ACTS], [ANSWERS], [TRAINS]],
}
"""The workers of each host."""

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
    )
}


def train(settings: Settings, side: str, seed: int) -> Iterator[Update]:
    """Train by a side."""
    if side == OURS:
        from gmi_drl.tasks import make

        return by_ours(settings, seed, lambda seed: make(NAME, num_env=settings.num_env, seed=seed))
    return by_layout(settings, layout_of(NAME, settings.num_env, SIDES[side], MAX_LAG), our_config(settings, seed))


TRAININGS = Trainings(__file__, "every_stream", TASKS, (OURS, *SIDES), train)

if __name__ == "__main__":
    TRAININGS.main(__doc__.splitlines()[0])
