"""The Multi-Agent Transformer on the four legs of Ant beside our PPO, which sees and moves all of them at once.

    python benchmarks/time_to_return/mat.py learn                    # continues where it was stopped
    python benchmarks/time_to_return/mat.py learn --seeds 1 --seconds 60      # a trial
    python benchmarks/time_to_return/mat.py tell
    python benchmarks/time_to_return/mat.py draw

MAT is `examples/mat` with its usual settings. PPO has those that it knows, too: rates, batches, discounts, the scale of
rewards, the weight of the value's loss and the noise at the start. It alone normalises observations. How runs are
counted: `trainings.py`. Seeds were fixed before the first run. MAT tells returns of episodes that began with a reset.
"""

import argparse
import math
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from typing import TYPE_CHECKING

from trainings import OURS, Settings, Trainings, Update, by_ours, our_config

from gmi_drl.benchmarks.peers import REPOSITORY

if TYPE_CHECKING:
    from gmi_drl.config.run_config import RunConfig

MAT = "mat"
LOG_STD = -0.7
"""Of MAT's actions at the start (`examples/mat/network.py`)."""
TASKS = {
    "Ant": Settings(
        "ant",
        400_000,
        None,
        num_env=64,
        horizon=32,
        batch=512,
        epochs=5,
        learning_rate=5e-4,
        value=1.0,
        hidden=(128, 64),
    )
}


def train(settings: Settings, side: str, seed: int) -> Iterator[Update]:
    """Train by a side."""
    if side == OURS:
        from gmi_drl.tasks import make

        config = ppo_config(settings, seed)
        return by_ours(settings, seed, lambda seed: make(settings.env_id, num_env=settings.num_env, seed=seed), config)
    return by_mat(settings, seed)


def ppo_config(settings: Settings, seed: int) -> "RunConfig":
    """Our PPO with what MAT has besides: rewards as it scales them, and its noise at the start."""
    from gmi_drl.workload import TASK_SPECS

    config = our_config(settings, seed)
    same = {"reward_scale": TASK_SPECS[settings.env_id].reward_scale, "init_std": math.exp(LOG_STD)}
    return config.model_copy(update={"learner": config.learner.model_copy(update=same)})


def by_mat(settings: Settings, seed: int) -> Iterator[Update]:
    """Train by the example, one rank."""
    sys.path.append(str(REPOSITORY / "examples" / MAT))
    import main as example

    given = argparse.Namespace(
        worlds=settings.num_env,
        steps=settings.horizon,
        epochs=settings.epochs,
        batches=settings.samples // settings.batch,
        rate=settings.learning_rate,
        seed=seed,
    )
    began_s = 0.0
    with closing(example.train(given)) as iterations:
        for steps, returns, _ in iterations:
            began_s = began_s or time.process_time()  # from the first update on: getting ready does not count
            cpu_s = time.process_time() - began_s
            yield Update(steps, cpu_s, len(returns), sum(returns))
            if steps >= settings.steps or cpu_s >= settings.cpu_s:
                return


TRAININGS = Trainings(__file__, "mat", TASKS, (OURS, MAT), train)

if __name__ == "__main__":
    TRAININGS.main(__doc__.splitlines()[0])
