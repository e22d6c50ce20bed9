"""PPO on MinAtar's Breakout and Asterix: ours and Stable-Baselines3, with the same small convolutions and settings.

    python benchmarks/peers/setup.py sb3_games
    python benchmarks/time_to_return/minatar_games.py learn                     # continues where it was stopped
    python benchmarks/time_to_return/minatar_games.py learn Breakout --seeds 1 --seconds 60    # a trial
    python benchmarks/time_to_return/minatar_games.py tell
    python benchmarks/time_to_return/minatar_games.py draw

Both run in the environment of Stable-Baselines3, which has MinAtar, and step the same environments of gymnasium one
after the other. How runs are counted: `trainings.py`. Seeds were fixed before the first run.
"""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from trainings import OURS, MakeTask, Settings, Trainings, Update, by_ours, by_peer

PEER, DRIVER = "sb3_games", "minatar_sb3"
STEPS = 3_000_000
USUAL: dict[str, Any] = {
    "num_env": 8,
    "horizon": 128,
    "batch": 256,
    "epochs": 4,
    "learning_rate": 2.5e-4,
    "clip": 0.1,
    "entropy": 0.01,
    "hidden": (),
    "conv": ((16, 3, 1),),
    "features": 128,
}
"""What is usual for Atari, with the network of MinAtar's authors."""

TASKS = {
    "Breakout": Settings("MinAtar/Breakout-v1", STEPS, 10, **USUAL),
    "Asterix": Settings("MinAtar/Asterix-v1", STEPS, 10, **USUAL),
}


def train(settings: Settings, side: str, seed: int) -> Iterator[Update]:
    """Train a game by a side."""
    if side != OURS:
        return by_peer(settings, side, DRIVER, seed)
    return by_ours(settings, seed, our_task(settings))


def our_task(settings: Settings) -> MakeTask:
    """What makes the game as a task of ours."""
    sys.path.append(str(Path(__file__).parents[2] / "examples" / "gmi_drl_minatar"))
    from gmi_drl_minatar import make_task

    game = settings.env_id.removeprefix("MinAtar/").removesuffix("-v1")
    sizes = {"num_env": settings.num_env, "device": "cpu", "threads": 1}
    return lambda seed: make_task(game, seed=seed, **sizes)


TRAININGS = Trainings(__file__, "minatar", TASKS, (OURS, PEER), train, peer=PEER)

if __name__ == "__main__":
    TRAININGS.main(__doc__.splitlines()[0])
