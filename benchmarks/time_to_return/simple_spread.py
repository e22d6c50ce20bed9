"""PPO of one policy for the agents of simple_spread: ours with and without `state`, and PettingZoo's recipe.

    python benchmarks/peers/setup.py sb3_games
    python benchmarks/time_to_return/simple_spread.py learn                 # continues where it was stopped
    python benchmarks/time_to_return/simple_spread.py learn --seeds 1 --seconds 60      # a trial
    python benchmarks/time_to_return/simple_spread.py tell
    python benchmarks/time_to_return/simple_spread.py draw

The recipe is Stable-Baselines3 over supersuit, which tells no end by time apart from a terminal state: ours bootstraps
at the time limit, by which all episodes end, and normalises observations, and the recipe does neither. Its worlds are
seeded by the system, as supersuit copies them. With `state` the critic alone also sees the whole world (MAPPO). Steps
and returns are of an agent. How runs are counted: `trainings.py`. Seeds were fixed before the first run.
"""

from collections.abc import Iterator

from trainings import OURS, Settings, Trainings, Update, by_ours, by_peer

PEER, DRIVER = "sb3_games", "spread_sb3"
WITH_STATE = f"{OURS}, state"
TASKS = {
    "simple_spread": Settings(
        "mpe2.simple_spread_v3", 1_500_000, None, num_env=24, horizon=125, batch=500, entropy=0.01, gamma=0.95
    )
}
"""Eight worlds of three agents; a rollout has five episodes of each."""


def train(settings: Settings, side: str, seed: int) -> Iterator[Update]:
    """Train by a side."""
    if side == PEER:
        return by_peer(settings, side, DRIVER, seed)
    from gmi_drl.config.task_section import TaskSettings
    from gmi_drl.tasks import make

    name, section = f"pettingzoo:{settings.env_id}", TaskSettings(state=side == WITH_STATE)
    return by_ours(settings, seed, lambda seed: make(name, num_env=settings.num_env, seed=seed, settings=section))


TRAININGS = Trainings(__file__, "simple_spread", TASKS, (OURS, WITH_STATE, PEER), train)

if __name__ == "__main__":
    TRAININGS.main(__doc__.splitlines()[0])
