"""DQN on MinAtar's Breakout: ours and Stable-Baselines3, with the same small network, settings and updates.

    python benchmarks/peers/setup.py sb3_games
    python benchmarks/time_to_return/minatar_dqn.py learn                     # continues where it was stopped
    python benchmarks/time_to_return/minatar_dqn.py learn --seeds 1 --seconds 60    # a trial
    python benchmarks/time_to_return/minatar_dqn.py tell

Both run in the environment of Stable-Baselines3, which has MinAtar, and store pictures as bytes. Ours is neither double
nor dueling here, and stores the next picture once. Returns are those of episodes of the training, with its random
actions. Lines tell the memory of the replay. How runs are counted: `trainings.py`. Seeds were fixed before the first
run.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from minatar_games import our_task
from trainings import OURS, Settings, Trainings, Update, by_ours, by_peer

PEER, DRIVER = "sb3_games", "minatar_dqn_sb3"
EVERY = 10_000
"""Steps of a line's update, on both sides."""


@dataclass(frozen=True)
class DQNSettings(Settings):
    """What DQN has besides.

    Attributes:
        size: Steps in the replay.
        starts: Steps before the first update; until then actions are random.
        every: Steps of all environments for an update.
        target_steps: Steps between copies of the network to the target.
        epsilon: Share of random actions at the end.
        epsilon_steps: Steps in which the share falls from 1, evenly.
    """

    size: int = 100_000
    starts: int = 5_000
    every: int = 4
    target_steps: int = 4_000
    epsilon: float = 0.05
    epsilon_steps: int = 100_000


TASKS = {
    "Breakout": DQNSettings(
        "MinAtar/Breakout-v1",
        1_000_000,
        10,
        num_env=8,
        horizon=4,
        batch=32,
        learning_rate=2.5e-4,
        hidden=(),
        conv=((16, 3, 1),),
        features=128,
        max_grad_norm=10.0,
    )
}
"""Network, replay and exploration of MinAtar's authors, an update for four steps as is usual for Atari."""


def our_dqn(settings: DQNSettings, seed: int) -> Any:
    """The settings as ours."""
    from gmi_drl.config.learners import DQNConfig
    from gmi_drl.config.learners.off_policy import ReplaySettings
    from gmi_drl.config.run_config import RunConfig

    learner = DQNConfig(
        hidden=settings.hidden,
        conv=settings.conv,
        features=settings.features,
        dueling=False,
        double=False,
        learning_rate=settings.learning_rate,
        gamma=settings.gamma,
        batch=settings.batch,
        horizon=settings.horizon,
        updates_per_step=settings.num_env / settings.every,
        target_every=settings.target_steps // settings.every,
        epsilon_end=settings.epsilon,
        epsilon_steps=settings.epsilon_steps,
        max_grad_norm=settings.max_grad_norm,
        replay=ReplaySettings(size=settings.size, min_size=settings.starts),
    )
    return RunConfig(seed=seed, learner=learner)


def train(settings: DQNSettings, side: str, seed: int) -> Iterator[Update]:
    """Train by a side."""
    if side != OURS:
        return by_peer(settings, side, DRIVER, seed)
    return in_steps_of(EVERY, by_ours(settings, seed, our_task(settings), our_dqn(settings, seed)))


def in_steps_of(every: int, updates: Iterable[Update]) -> Iterator[Update]:
    """One update for those of so many steps each, with the episodes of all, and one for the rest."""
    episodes, total, told = 0, 0.0, 0
    last = None
    for last in updates:
        episodes, total = episodes + last.episodes, total + last.return_sum
        if last.env_steps - told >= every:
            yield last._replace(episodes=episodes, return_sum=total)
            episodes, total, told = 0, 0.0, last.env_steps
    if last is not None and last.env_steps > told:
        yield last._replace(episodes=episodes, return_sum=total)


TRAININGS = Trainings(__file__, "minatar_dqn", TASKS, (OURS, PEER), train, peer=PEER)

if __name__ == "__main__":
    TRAININGS.main(__doc__.splitlines()[0])
