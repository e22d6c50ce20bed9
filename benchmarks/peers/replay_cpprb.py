"""cpprb: a million transitions of 57 floats; adds, samples or updates of priorities."""

import cpprb
import numpy as np
from replay_loops import ADDED, ALPHA, BETA, ITEMS, measure, read_replay_arguments, transitions


def main() -> None:
    """Call for the time given."""
    arguments = read_replay_arguments(__doc__)
    count, random = arguments.num_env, np.random.default_rng(arguments.seed)
    is_prioritized = arguments.what not in ("uniform", "add")
    spec = {"obs": {"shape": 27}, "next_obs": {"shape": 27}, "act": {}, "rew": {}, "done": {}}
    if is_prioritized:
        buffer = cpprb.PrioritizedReplayBuffer(ITEMS, spec, alpha=ALPHA)
    else:
        buffer = cpprb.ReplayBuffer(ITEMS, spec)
    filling = transitions(ADDED)
    for _ in range(ITEMS // ADDED):
        buffer.add(**filling)
    if is_prioritized:
        buffer.update_priorities(np.arange(ITEMS), random.random(ITEMS))
    new, places, priorities = transitions(count), random.integers(ITEMS, size=count), random.random(count)

    def per_step() -> None:
        drawn = buffer.sample(count, beta=BETA)
        buffer.update_priorities(drawn["indexes"], priorities)

    calls = {
        "per_step": per_step,
        "uniform": lambda: buffer.sample(count),
        "prioritized": lambda: buffer.sample(count, beta=BETA),
        "add": lambda: buffer.add(**new),
        "add_prioritized": lambda: buffer.add(**new),
        "update": lambda: buffer.update_priorities(places, priorities),
    }
    measure(calls[arguments.what], count, arguments.seconds)


if __name__ == "__main__":
    main()
