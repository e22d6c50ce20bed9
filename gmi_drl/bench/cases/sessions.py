"""Sides that are layouts on the same devices, of which one runs at a time."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, TypeVar

from gmi_drl.bench.case import Sample, Side
from gmi_drl.bench.cores import PURPOSE

if TYPE_CHECKING:
    from gmi_drl.config import RunConfig
    from gmi_drl.layout import Layout
    from gmi_drl.profiler.sessions import Sessions

Name = TypeVar("Name")


def of_layouts(
    layouts: "Mapping[Name, Layout]",
    config: "RunConfig",
    environments: Mapping[Name, Mapping[str, str | None]] | None = None,
) -> "Sessions[Name]":
    """A session of each layout.

    Args:
        layouts: By whatever tells them apart.
        config: How they train.
        environments: Variables of the GMIs of some that differ from what their backend gives; None takes one away.
    """
    from gmi_drl.profiler.session import Session
    from gmi_drl.profiler.sessions import Sessions

    given = environments or {}
    sessions = {name: Session(layout, config, environment=given.get(name)) for name, layout in layouts.items()}
    return Sessions(sessions, PURPOSE)


def training_side(sessions: "Sessions[Name]", name: Name, num_env: int, seconds: float) -> Side:
    """Steps per second of a layout with `num_env` environments in each GMI, and where its iterations go."""

    def measure() -> Sample:
        session = sessions[name]
        measured = session.measure(num_env, seconds)
        shape = {"num_env": num_env, "gmis": len(session.layout.gmis)}
        return Sample(measured.steps_per_second, {**shape, "memory_bytes": measured.memory_bytes, **measured.phases})

    return measure
