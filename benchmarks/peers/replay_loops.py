"""What the drivers of replay libraries do: fill a buffer of a million transitions of 57 floats, then call one thing."""

import argparse
from collections.abc import Callable

import numpy as np
from settings import Updates, make_parser

ITEMS = 1_000_000
ADDED = 2000
ALPHA, BETA = 0.6, 0.4
CALLS = 50
"""Per line."""

WHAT = ("uniform", "prioritized", "add", "add_prioritized", "update", "per_step")


def read_replay_arguments(description: str | None) -> argparse.Namespace:
    """The command line: `--num-env` is the number of transitions of a call."""
    parser = make_parser(description)
    parser.add_argument("--what", choices=WHAT, required=True)
    return parser.parse_args()


def transitions(count: int) -> dict[str, np.ndarray]:
    """Random transitions."""
    random = np.random.default_rng(0)
    sizes = {"obs": 27, "next_obs": 27, "act": 1, "rew": 1, "done": 1}
    return {name: random.random((count, size), dtype=np.float32) for name, size in sizes.items()}


def measure(call: Callable[[], object], count: int, seconds: float) -> None:
    """Call again and again. `env_steps` of a line are transitions."""
    updates, done = Updates(seconds), 0
    while not updates.is_over:
        for _ in range(CALLS):
            call()
        done += CALLS * count
        updates.report(done, None)
