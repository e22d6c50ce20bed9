"""PPO on Pong for an hour of a core: ours, ours by workers, and a loop in the manner of CleanRL, with equal settings.

    python benchmarks/peers/setup.py cleanrl_envpool
    python benchmarks/time_to_return/pong.py learn                  # three hours; continues where it was stopped
    python benchmarks/time_to_return/pong.py learn --seconds 60     # a trial
    python benchmarks/time_to_return/pong.py tell
    python benchmarks/time_to_return/pong.py draw

Both step envpool's Pong-v5: 4 frames a step, 84 x 84 grey, a stack of 4, rewards clipped for learning. Returns are of
whole games. How runs are counted: `trainings.py`.
"""

from collections.abc import Iterator

from trainings import OURS, Settings, Trainings, Update, by_ours, by_peer, our_config
from worker_trainings import ACTS, ANSWERS, TRAINS, by_layout, layout_of

WORKERS, MAX_LAG = "workers, remote", 1
PEER, DRIVER = "cleanrl_envpool", "atari_cleanrl"
HOUR_S = 3600.0
TASKS = {
    "Pong": Settings(
        "Pong-v5",
        10**9,
        15,
        num_env=8,
        horizon=128,
        batch=256,
        epochs=4,
        learning_rate=2.5e-4,
        clip=0.1,
        entropy=0.01,
        hidden=(),
        conv=((32, 8, 4), (64, 4, 2), (64, 3, 1)),
        cpu_s=HOUR_S,
    )
}
"""CleanRL's own settings, but that the learning rate and the value loss are neither lowered nor clipped."""


def train(settings: Settings, side: str, seed: int) -> Iterator[Update]:
    """Train by a side."""
    if side == WORKERS:
        layout = layout_of(f"envpool:{settings.env_id}", settings.num_env, [[ACTS, ANSWERS, TRAINS]], MAX_LAG)
        return by_layout(settings, layout, our_config(settings, seed))
    return by_ours(settings, seed) if side == OURS else by_peer(settings, side, DRIVER, seed)


TRAININGS = Trainings(__file__, "pong", TASKS, (OURS, WORKERS, PEER), train, seeds=1)

if __name__ == "__main__":
    TRAININGS.main(__doc__.splitlines()[0])
