"""The seeds of GMIs."""

import hashlib
from pathlib import Path

from gmi_drl.config.run_config import RunConfig
from gmi_drl.workload import MOST_ENVIRONMENTS

SEEDS = 2**32


def seed_of(config: RunConfig, iteration: int, gmi_id: int, purpose: str) -> int:
    """A seed, another one for each GMI, each purpose and each iteration after which a run goes on."""
    text = f"{config.seed}/{iteration}/{gmi_id}/{purpose}"
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4])


def start_of(resume: str | None) -> int:
    """The iteration after which a run goes on: that of the checkpoint with this path, or 0."""
    return int(Path(resume).name) if resume else 0


def serving_seed(seed: int, number: int) -> int:
    """The seed of GMI `number` where a policy is served.

    Those of GMIs are far apart, as adapters give environment i of a GMI its seed + i.
    """
    return (seed + number * MOST_ENVIRONMENTS) % SEEDS
