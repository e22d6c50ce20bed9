"""Large items gathered from storage, beside a copy of as much memory in one piece."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

from gmi_drl.benchmarks.case import Case, Sample, Sides
from gmi_drl.benchmarks.cases.common.timing import mean_seconds
from gmi_drl.benchmarks.cores import one_core

ROWS, QUICK_ROWS = 5000, 600
FLOATS, BATCH = 25_000, 256
WINDOWS, STEPS, STEP_FLOATS = 64, 50, 500
CALLS, QUICK_CALLS = 10, 2


@contextmanager
def open_sides(quick: bool, *, is_windows: bool) -> Iterator[Sides]:
    """From memory of the process, from a memfd, and the copy, each into memory that was written before."""
    import torch

    from gmi_drl.replay.fields import Field, Signature
    from gmi_drl.replay.storage import make_storage

    steps, rows = (STEPS, STEP_FLOATS) if is_windows else (1, FLOATS)
    items, batch = (QUICK_ROWS if quick else ROWS), (WINDOWS if is_windows else BATCH)
    signature = Signature([Field("data", (rows,))])
    calls = QUICK_CALLS if quick else CALLS
    with one_core():
        sides: dict[str, Callable[[], Sample]] = {}
        storages = [make_storage(signature, items * steps, placement=placement) for placement in ("cpu", "shared")]
        for storage in storages:
            out = storage.gather(torch.zeros(batch, dtype=torch.int64), steps)

            def gather(storage=storage, out=out) -> None:  # type: ignore[no-untyped-def]  # noqa: ANN001
                storage.gather(torch.randint(storage.steps - steps, (batch,)), steps, out=out)

            sides[f"gmi-drl, {storage.placement}"] = partial(mean_seconds, gather, calls)
        words, target = storages[0].rows.words["step"], torch.zeros(batch * steps, rows // 2, dtype=torch.int64)

        def copy() -> None:
            first = int(torch.randint(len(words) - len(target), ()))
            target.copy_(words[first : first + len(target)])

        sides["one copy"] = partial(mean_seconds, copy, calls)
        try:
            yield sides
        finally:
            for storage in storages:
                storage.close()


def _obstacle() -> str | None:
    return None if hasattr(os, "memfd_create") else "this system has no memfd"


CASES = (
    Case(
        name="replay_gather",
        claim="256 items of 100 kB each, gathered from anywhere in 500 MB, against one copy of as much.",
        unit="s",
        open=partial(open_sides, is_windows=False),
        obstacle=_obstacle,
        lower_is_better=True,
        guard=0.3,
        floor=0.19,
    ),
    Case(
        name="replay_gather_windows",
        claim="64 windows of 50 steps of 2 kB each, gathered from anywhere in 500 MB, against one copy of as much.",
        unit="s",
        open=partial(open_sides, is_windows=True),
        obstacle=_obstacle,
        lower_is_better=True,
    ),
)
