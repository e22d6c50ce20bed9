"""Rings of all sizes, and of both ways to keep the next observation."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from gmi_drl.benchmarks.case import Case, Sample, Sides
from gmi_drl.benchmarks.cases.common import growing
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
    """Rings of all sizes; details: bytes that the process grew by in adding to them, which are full."""
    sizes, calls = (QUICK_SIZES, QUICK_CALLS) if quick else (SIZES, CALLS)
    with one_core():
        rings = {items: full_ring(items, 1, prioritized=True) for items in sizes}
        drawn = growing.side("items", sizes, lambda items: _seconds_of_draw(rings[items], calls))

        def measure() -> Sample:
            before = _resident_bytes()
            for ring in rings.values():
                add_steps(ring, 1, ADDED)
            grown, sample = _resident_bytes() - before, drawn()
            return Sample(sample.value, {**sample.details, "grown_bytes": grown})

        yield {"gmi-drl": measure}


def _seconds_of_draw(ring: "Ring", calls: int) -> float:
    drawn = ring.sample(DRAWN)
    return mean_seconds(lambda: ring.sample(DRAWN, out=drawn), calls).value


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
    return Sample(_seconds_of_draw(ring, calls), {"ring_bytes": ring.storage.bytes})


CASES = (
    Case(
        name="replay_growth",
        claim=f"How the time of a prioritized draw of {DRAWN} grows with rings of 10,000 to 10,000,000 steps, whose "
        "memory does not grow once full. 1 is growth in proportion.",
        unit="exponent",
        open=open_growth,
        compared=False,
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
