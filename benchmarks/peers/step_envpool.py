"""envpool alone: Ant-v5 with random actions, no learning. A line per batch of steps."""

import envpool
import numpy as np
from settings import Updates, read_arguments

STEPS_PER_LINE = 10
WARM_UP_STEPS = 60
"""Before the first line, so that every library's worlds are as far in their episodes."""


def main() -> None:
    """Step for the time given; `--threads` are envpool's."""
    arguments = read_arguments(__doc__)
    envs = envpool.make_gymnasium(
        "Ant-v5", num_envs=arguments.num_env, num_threads=arguments.threads, seed=arguments.seed
    )
    actions = np.random.default_rng(arguments.seed).uniform(-1, 1, (STEPS_PER_LINE, arguments.num_env, 8))
    envs.reset()
    for step in range(WARM_UP_STEPS):
        envs.step(actions[step % STEPS_PER_LINE])
    updates, steps = Updates(arguments.seconds), 0
    updates.report(steps, None)
    while not updates.is_over:
        for action in actions:
            envs.step(action)
        steps += STEPS_PER_LINE * arguments.num_env
        updates.report(steps, None)


if __name__ == "__main__":
    main()
