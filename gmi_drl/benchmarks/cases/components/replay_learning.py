"""A train step of DQN from a Python list, from packed memory of the host, and from a ring (In-GPU replay, Table 1)."""

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

from gmi_drl.benchmarks.case import Case, Sample, Sides
from gmi_drl.benchmarks.cases.common.timing import mean_seconds
from gmi_drl.benchmarks.cores import one_core

if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from gmi_drl.algo.dqn import DQN
    from gmi_drl.replay.ring import Ring, RingBatch

OBS, ACTIONS = 27, 4
STEPS, QUICK_STEPS = 100_000, 2_000
NUM_ENV = 10
FASTER = {16: 31, 32: 55, 64: 67, 128: 114, 256: 114}
"""By how many percent a train step of the paper (Table 1) is faster than from a list, by batch."""

CALLS, QUICK_CALLS = 200, 2
UPDATE_SIZES, QUICK_UPDATE_SIZES = (1, 10, 100, 1_000, 10_000), (1, 1_000)
UPDATED_BATCH = 32


def make_learner(batch: int) -> "DQN":
    """The paper's dueling double DQN: a shared layer of 128, two of 512."""
    from dataclasses import replace

    import torch

    from gmi_drl.algo.dqn import DQN, make_dqn_agent
    from gmi_drl.config.learners import DQNConfig
    from gmi_drl.roles.precision import flush_denormals
    from gmi_drl.workload import TASK_SPECS
    from gmi_drl.workload.spaces import categorical, vector

    flush_denormals()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    spec = replace(TASK_SPECS["ant"], name="table-1", observation=vector(OBS), action=categorical(ACTIONS))
    config = DQNConfig(hidden=(128,))
    return DQN(make_dqn_agent(spec, config, device, seed=0), config, batch=batch)


def from_list(batch: int, steps: int) -> Callable[[], object]:
    """The paper's baseline: a list of transitions, `random.sample`, and tensors stacked from it."""
    import torch

    learner, draw = make_learner(batch), random.Random(0)
    names = ("obs", "action", "reward", "next/obs", "discount")
    shapes = ((OBS,), (1,), (), (OBS,), ())
    memory = [tuple(torch.zeros(shape) for shape in shapes) for _ in range(steps)]

    def step() -> None:
        drawn = zip(*draw.sample(memory, batch), strict=True)
        fields = {name: torch.stack(values).to(learner.device) for name, values in zip(names, drawn, strict=True)}
        learner.update(_batch(fields))

    return step


def _batch(fields: "dict[str, Tensor]") -> "RingBatch":
    import torch

    from gmi_drl.replay.ring import RingBatch

    nothing = torch.zeros(0, dtype=torch.int64)
    return RingBatch(fields, nothing, nothing, 0, (object(), None))  # type: ignore[arg-type]


def from_ring(batch: int, steps: int, placement: str) -> Callable[[], object]:
    """A ring with this placement, of steps with both observations, as the paper's rows."""
    learner = make_learner(batch)
    ring, _ = full_ring(steps, placement, learner.device)
    drawn = ring.sample(batch)
    return lambda: learner.update(ring.sample(batch, out=drawn))


def full_ring(
    steps: int, placement: str, device: "torch.device", update_size: int | None = None
) -> "tuple[Ring, Callable[[], None]]":
    """A ring that is full, and what adds a step of its environments, which are on the host."""
    import torch

    from gmi_drl.replay.fields import Field, Signature
    from gmi_drl.replay.ring import Ring

    kinds = [Field("obs", (OBS,)), Field("action", (1,)), Field("reward"), Field("terminated", (), torch.bool)]
    ring = Ring(
        Signature(kinds),
        NUM_ENV,
        steps // NUM_ENV,
        placement=placement,
        device=device,
        update_size=update_size,
        next_obs="twice",
    )
    ended, valid = torch.zeros(NUM_ENV, dtype=torch.bool), torch.ones(NUM_ENV, dtype=torch.bool)
    one = {"obs": torch.rand(NUM_ENV, OBS), "next/obs": torch.rand(NUM_ENV, OBS), "action": torch.zeros(NUM_ENV, 1)}

    def add() -> None:
        ring.add(one | {"reward": torch.rand(NUM_ENV), "terminated": ended}, ended, valid)

    for _ in range(ring.steps):
        add()
    ring.storage.flush()
    return ring, add


@contextmanager
def open_sides(batch: int, quick: bool) -> Iterator[Sides]:
    """The ring first; on a GPU also packed memory of the host that it reads, `pinned`."""
    import torch

    steps, calls = (QUICK_STEPS, QUICK_CALLS) if quick else (STEPS, CALLS)
    with one_core():
        made = {"gmi-drl, ring": from_ring(batch, steps, "device")}
        if torch.cuda.is_available():
            made["gmi-drl, pinned"] = from_ring(batch, steps, "pinned")
        made["list"] = from_list(batch, steps)
        for call in made.values():
            call()
        yield {name: partial(_timed, call, calls) for name, call in made.items()}


def adding(update_size: int, steps: int) -> Callable[[], object]:
    """A step of the environments into a ring, which copies so many at once, and a train step."""
    learner = make_learner(UPDATED_BATCH)
    ring, add = full_ring(steps, "device", learner.device, update_size)
    drawn = ring.sample(UPDATED_BATCH)

    def step() -> None:
        add()
        learner.update(ring.sample(UPDATED_BATCH, out=drawn))

    return step


@contextmanager
def open_update_sizes(quick: bool) -> Iterator[Sides]:
    """A side for each size."""
    steps, calls = (QUICK_STEPS, QUICK_CALLS) if quick else (STEPS, CALLS)
    with one_core():
        made = {size: adding(size, steps) for size in (QUICK_UPDATE_SIZES if quick else UPDATE_SIZES)}
        for call in made.values():
            call()
        yield {f"gmi-drl, {size:,} at once": partial(_timed, call, calls) for size, call in made.items()}


def _timed(call: Callable[[], object], calls: int) -> Sample:
    import torch

    def all_calls() -> None:
        for _ in range(calls):
            call()
        if torch.cuda.is_available():
            torch.cuda.synchronize()

    sample = mean_seconds(all_calls, 1)
    return Sample(sample.value / calls)


CASES = (
    *(
        Case(
            name=f"replay_in_gpu_{batch}",
            claim=f"A train step of dueling double DQN with a batch of {batch}, drawn from a ring on the device, "
            "against a Python list and `random.sample` (Parr 2017, Table 1).",
            unit="s",
            open=partial(open_sides, batch),
            lower_is_better=True,
            reference=f"Parr 2017, Table 1: {percent} % faster, on a TITAN X",
            guard=0.4 if batch == UPDATED_BATCH else None,
            floor=0.2 if batch == UPDATED_BATCH else None,
        )
        for batch, percent in FASTER.items()
    ),
    Case(
        name="replay_in_gpu_update_sizes",
        claim=f"A step of {NUM_ENV} environments on the host into a ring on the device, which copies 1 to 10,000 steps "
        f"at once, and a train step with a batch of {UPDATED_BATCH} (Parr 2017, Figure 3).",
        unit="s",
        open=open_update_sizes,
        lower_is_better=True,
    ),
)
