"""`python benchmarks/soak/random_spaces.py [COUNT] [FIRST]`: random nested spaces train, or are refused in words.

Each of COUNT (2,000) toy environments has random observations and actions, some of kinds that are not supported or with
images that are too small. Our PPO trains three iterations in this process. The environment checks that every action is
in its space. An error that is no `GmiError` is a fault, and so is a loss that is not finite. Prints what became of all.
"""

import sys
import time
import traceback
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, SyncVectorEnv

sys.path.insert(0, str(Path(__file__).parents[2] / "tests" / "tasks" / "adapters"))
from toy_spaces import AnySpaces, done_leaf, random_space, seen_leaf

from gmi_drl.comm.reductions.single import NoReduction
from gmi_drl.config.run_config import RunConfig, default_config
from gmi_drl.errors import UsageError
from gmi_drl.roles.training.iteration_stats import Decision
from gmi_drl.roles.training.ppo_replica import PPOReplica
from gmi_drl.tasks.adapters.gymnasium import GymnasiumTask

ODD = 0.03
"""Share of leaves that are refused."""

ITERATIONS = 3
SMALL = {"hidden": (8,), "horizon": 5, "minibatches": 2, "epochs": 1}
SMALL_IMAGES = {"features": 8, "conv": ((4, 3, 2),)}


def odd_leaf(rng: np.random.Generator) -> spaces.Space[Any]:
    """A space that no task can have."""
    return [
        lambda: spaces.Text(4),
        lambda: spaces.Sequence(spaces.Discrete(3)),
        lambda: spaces.Graph(spaces.Box(-1, 1, (2,)), spaces.Discrete(3)),
        lambda: spaces.OneOf([spaces.Discrete(2), spaces.Box(-1, 1, (2,))]),
        lambda: spaces.Box(0, 255, (2, 2, 3), np.uint8),
    ][rng.integers(5)]()


def outcome(number: int) -> str:
    """What becomes of the environment with this number: `trains`, or the reason of the refusal.

    Raises:
        Exception: If it is neither.
    """
    rng = np.random.default_rng(number)

    def leaf(usual: Any) -> Any:
        return lambda rng: odd_leaf(rng) if rng.random() < ODD else usual(rng)

    seen, done = random_space(rng, leaf(seen_leaf)), random_space(rng, leaf(done_leaf))
    mode = list(AutoresetMode)[number % 2]
    try:
        envs = SyncVectorEnv([lambda: AnySpaces(seen, done)] * 3, autoreset_mode=mode)
    except Exception as error:  # gymnasium itself has no vectors of it
        return f"gymnasium: {type(error).__name__}"
    try:
        task = GymnasiumTask(envs, seed=number)
        small = SMALL | (SMALL_IMAGES if task.spec.observation.of_kind("image") else {})
        config = RunConfig(learner=default_config(task.spec).learner.model_copy(update=small))
        if mistakes := config.learner.check(task.spec, None):
            raise UsageError("; ".join(mistakes))
    except UsageError as error:
        return f"refused: {'no supported space' if 'supported are' in str(error) else 'an image is too small'}"
    replica = PPOReplica(task.spec, config, NoReduction(), sample_share=1.0, device=torch.device("cpu"), seed=number)
    replica.attach_task(task, seed=1)
    for _ in range(ITERATIONS):
        replica.iterate(lambda: Decision.GO_ON)
    if not all(np.isfinite(value) for value in replica.metrics().values()):
        raise FloatingPointError(f"metrics are not finite: {replica.metrics()}")
    return "trains"


def main(count: int = 2000, first: int = 0) -> int:
    """Run all and print. Returns 1 if there was a fault."""
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    found, faults, started = Counter[str](), list[str](), time.monotonic()
    for number in range(first, first + count):
        try:
            found[outcome(number)] += 1
        except Exception as error:
            traceback.print_exc()
            faults.append(f"{number}: {type(error).__name__}: {error}")
    print(f"environments {first} to {first + count - 1}, {time.monotonic() - started:.0f} s")
    for words, times in found.most_common():
        print(f"{times:6d} {words}")
    print(f"{len(faults):6d} faults")
    print("\n".join(faults))
    return bool(faults)


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])))
