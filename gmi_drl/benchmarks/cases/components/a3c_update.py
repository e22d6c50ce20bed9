"""Two parts of a decoupled iteration: an update of A3C, and the moments of an agent's observations."""

import ctypes
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

from gmi_drl.benchmarks.case import Case, Sides
from gmi_drl.benchmarks.cases.common.timing import mean_seconds
from gmi_drl.benchmarks.cores import one_core
from gmi_drl.layout.environment import KEEP_FREED_MEMORY

if TYPE_CHECKING:
    from torch import Tensor

    from gmi_drl.algo.a3c import A3C
    from gmi_drl.algo.experience_batch import ExperienceBatch

TASK, NUM_ENV = "anymal", 256
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3  # malloc.h

UPDATES, QUICK_UPDATES = 20, 2
LOOKS, QUICK_LOOKS = 200, 10


@contextmanager
def open_update(quick: bool) -> Iterator[Sides]:
    """Two equal learners, which learn from the same batch again and again."""
    from gmi_drl.algo.a3c import A3C
    from gmi_drl.benchmarks.cases.components.a3c_by_autograd import A3CByAutograd

    updates = QUICK_UPDATES if quick else UPDATES
    with one_core():
        keep_freed_memory()
        sides = {"gmi-drl": A3C, "by autograd": A3CByAutograd}
        pairs = {name: learner_and_batch(learner) for name, learner in sides.items()}
        for a3c, batch in pairs.values():
            a3c.update(batch)
        yield {name: partial(mean_seconds, partial(a3c.update, batch), updates) for name, (a3c, batch) in pairs.items()}


def learner_and_batch(learner: "type[A3C]", task: str = TASK) -> "tuple[A3C, ExperienceBatch]":
    """A new learner, and a rollout of its first policy."""
    import torch

    from gmi_drl.algo.agent import make_agent
    from gmi_drl.config.run_config import a3c_of, default_config
    from gmi_drl.layout.experience import RolloutForm
    from gmi_drl.roles.probes.trainer_probe import random_experience
    from gmi_drl.workload import TASK_SPECS

    spec, cpu = TASK_SPECS[task], torch.device("cpu")
    config = a3c_of(default_config(spec, "a3c"))
    agent = make_agent(spec, config, cpu, seed=0)
    batch = random_experience(RolloutForm(config.horizon, NUM_ENV, spec.observation, spec.action), agent)
    return learner(agent.policy, agent.normaliser, config), batch


@contextmanager
def open_moments(quick: bool) -> Iterator[Sides]:
    """Both sides take the moments of the same observations."""
    import torch

    from gmi_drl.algo.a3c import A3C
    from gmi_drl.algo.normaliser import moments

    looks = QUICK_LOOKS if quick else LOOKS
    with one_core():
        _, batch = learner_and_batch(A3C)
        rows = batch.obs.flatten(0, 2)

        def by_var_mean() -> "Tensor":
            variance, mean = torch.var_mean(rows.double(), dim=0, correction=0)
            count = torch.full((1,), len(rows), dtype=torch.float64)
            return torch.cat((count, mean, variance * len(rows)))

        ways: dict[str, Callable[[], object]] = {"gmi-drl": partial(moments, rows), "torch.var_mean": by_var_mean}
        yield {name: partial(mean_seconds, way, looks) for name, way in ways.items()}


def keep_freed_memory() -> None:
    """Let this process' allocator keep freed memory, as in a GMI (`layout/environment.py`)."""
    mmap, trim = map(int, KEEP_FREED_MEMORY.values())
    library = ctypes.CDLL(None)
    library.mallopt(_M_MMAP_THRESHOLD, mmap)
    library.mallopt(_M_TRIM_THRESHOLD, trim)


CASES = (
    Case(
        name="a3c_update",
        claim=f"An update of A3C by one rollout of {NUM_ENV} environments of {TASK} on 1 thread: gradients computed by "
        "hand straight into the bucket, against the same loss and networks by autograd. Parameters are bit-identical.",
        unit="s",
        open=open_update,
        lower_is_better=True,
        limits="On a CPU. Most of the remaining time is matrix products, which both sides have.",
        repeats=15,
    ),
    Case(
        name="rollout_moments",
        claim=f"The moments that one rollout of {NUM_ENV} environments of {TASK} adds to the normaliser: mean and sum "
        "of squared deviations of each observation in float64, in two passes, against torch.var_mean, on 1 thread.",
        unit="s",
        open=open_moments,
        lower_is_better=True,
        limits="On a CPU.",
        repeats=15,
    ),
)
