"""Rings of all sizes, and of both ways to keep the next observation."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from gmi_drl.benchmarks.case import Case, Sample, Sides
from gmi_drl.benchmarks.cases.common.timing import mean_seconds
from gmi_drl.benchmarks.cores import one_core

if TYPE_CHECKING:
    from gmi_drl.replay.ring import Ring

NUM_ENV = 100
SIZES, QUICK_SIZES = (10_000, 100_000, 1_000_000, 10_000_000), (1_000, 10_000)
DRAWN = 1024
CALLS, QUICK_CALLS = 200, 2
ADDED = 100
"""Steps of all environments beyond a full ring, during which its memory must not grow."""

ITEMS, QUICK_ITEMS = 1_000_000, 10_000
WIDTHS = (27, 131)


def full_ring(
    items: int, obs: int, next_obs: Literal["once", "twice"] = "once", *, prioritized: bool = False
) -> "Ring":
    """A ring of `items` steps of `NUM_ENV` environments that has gone once around."""
    import torch

    from gmi_drl.replay.fields import Field, Signature
    from gmi_drl.replay.ring import Ring
    from gmi_drl.replay.selectors import Prioritized, Uniform

    kinds = [Field("obs", (obs,)), Field("action"), Field("reward"), Field("terminated", (), torch.bool)]
    sampler = Prioritized(0.6) if prioritized else Uniform()
    ring = Ring(Signature(kinds), NUM_ENV, items // NUM_ENV, sampler=sampler, next_obs=next_obs)
    add_steps(ring, obs, ring.steps)
    return ring


def add_steps(ring: "Ring", obs: int, steps: int) -> None:
    """Add random steps of all environments."""
    import torch

    ended, valid = torch.zeros(NUM_ENV, dtype=torch.bool), torch.ones(NUM_ENV, dtype=torch.bool)
    step = {"obs": torch.rand(NUM_ENV, obs), "action": torch.rand(NUM_ENV), "reward": torch.rand(NUM_ENV)}
    if ring.is_twice:
        step["next/obs"] = torch.rand(NUM_ENV, obs)
    for _ in range(steps):
        ring.add(step | {"terminated": ended}, ended, valid)


@contextmanager
def open_growth(quick: bool) -> Iterator[Sides]:
    """A side for each size; details: bytes that the process grew by in adding to a full ring."""
    with one_core():
        sides = {}
        for items in QUICK_SIZES if quick else SIZES:
            ring = full_ring(items, 1, prioritized=True)
            sides[f"gmi-drl, {items:,} items"] = partial(_grown, ring, QUICK_CALLS if quick else CALLS)
        yield sides


def _grown(ring: "Ring", calls: int) -> Sample:
    before = _resident_bytes()
    add_steps(ring, 1, ADDED)
    grown = _resident_bytes() - before
    drawn = ring.sample(DRAWN)
    return Sample(mean_seconds(lambda: ring.sample(DRAWN, out=drawn), calls).value, {"grown_bytes": grown})


def _resident_bytes() -> int:
    status = Path("/proc/self/status").read_text()
    return 1024 * int(status.partition("VmRSS:")[2].split()[0])


@contextmanager
def open_layouts(width: int, quick: bool) -> Iterator[Sides]:
    """Both layouts; details: bytes of the ring."""
    with one_core():
        sides = {}
        for next_obs in ("once", "twice"):
            ring = full_ring(QUICK_ITEMS if quick else ITEMS, width, next_obs)
            sides[f"gmi-drl, {next_obs}"] = partial(_drawn, ring, QUICK_CALLS if quick else CALLS)
        yield sides


def _drawn(ring: "Ring", calls: int) -> Sample:
    drawn = ring.sample(DRAWN)
    value = mean_seconds(lambda: ring.sample(DRAWN, out=drawn), calls).value
    return Sample(value, {"ring_bytes": ring.storage.bytes})


CASES = (
    Case(
        name="replay_growth",
        claim=f"A prioritized draw of {DRAWN} of a ring of 10,000 to 10,000,000 steps, which does not grow once full.",
        unit="s",
        open=open_growth,
        lower_is_better=True,
    ),
    *(
        Case(
            name=f"replay_once_or_twice_{width}",
            claim=f"A draw of {DRAWN} steps with observations of {width} numbers, the next one read from the step that "
            "follows, or stored twice.",
            unit="s",
            open=partial(open_layouts, width),
            lower_is_better=True,
            guard=0.3 if width == WIDTHS[0] else None,
            floor=2 if width == WIDTHS[0] else None,
        )
        for width in WIDTHS
    ),
)
