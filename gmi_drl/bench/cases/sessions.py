"""Sides that are layouts: their GMIs stay alive on the same devices, and one layout runs at a time."""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, TypeVar

from gmi_drl.bench.case import Sample, Side

if TYPE_CHECKING:
    from gmi_drl.config import RunConfig
    from gmi_drl.layout import Layout
    from gmi_drl.profiler.session import Session


Name = TypeVar("Name")


@contextmanager
def alive(
    layouts: "Mapping[Name, Layout]", config: "RunConfig", spin_counts: Mapping[Name, str | None] | None = None
) -> "Iterator[dict[Name, Session]]":
    """A session of each layout; the first claims the devices for all.

    Args:
        layouts: By whatever tells them apart.
        config: How they train.
        spin_counts: GOMP_SPINCOUNT of those that shall not have the usual one; None for libgomp's own.
    """
    from gmi_drl.gmi import ProcessBackend
    from gmi_drl.gmi.process import SPIN_COUNT
    from gmi_drl.profiler.session import Session

    spins = {name: SPIN_COUNT for name in layouts} | dict(spin_counts or {})
    sessions: dict[Name, Session] = {}
    with ExitStack() as life:
        for name, layout in layouts.items():
            backend = ProcessBackend("gmi-drl bench", claims=not sessions, spin_count=spins[name])
            sessions[name] = life.enter_context(Session(layout, config, backend=backend))
        yield sessions


def training_side(session: "Session", num_env: int, seconds: float) -> Side:
    """Steps per second of a layout with `num_env` environments in each GMI, and where its iterations go."""

    def measure() -> Sample:
        measured = session.measure(num_env, seconds)
        shape = {"num_env": num_env, "gmis": len(session.layout.gmis)}
        return Sample(measured.steps_per_second, {**shape, "memory_bytes": measured.memory_bytes, **measured.phases})

    return measure
