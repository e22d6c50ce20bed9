"""Sides that are layouts on the same devices, of which one runs at a time."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, TypeVar

from gmi_drl.benchmarks.case import Sample, Side
from gmi_drl.benchmarks.cores import PURPOSE

if TYPE_CHECKING:
    from gmi_drl.config.run_config import RunConfig
    from gmi_drl.gmi.utilisation import Usage
    from gmi_drl.layout.layout import Layout
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


def training_side(sessions: "Sessions[Name]", name: Name, num_env: int | None, seconds: float) -> Side:
    """Steps per second of a layout with `num_env` environments in each GMI, and where its iterations go.

    Without `num_env` each GMI has as many as the layout gives it.
    """

    def measure() -> Sample:
        session = sessions[name]
        measured = session.measure(num_env, seconds)
        shape = {"num_env": measured.num_env, "gmis": len(session.layout.gmis)}
        numbers = {"memory_bytes": measured.memory_bytes, **measured.phases, **usage_details(measured.devices)}
        return Sample(measured.steps_per_second, {**shape, **numbers})

    return measure


def usage_details(devices: "Usage") -> dict[str, float]:
    """How busy GPUs were, as details of a sample: percentages are means over the devices, watts sums."""
    columns: dict[str, list[float]] = {}
    for values in devices.values():
        for name, value in values.items():
            columns.setdefault(name, []).append(value)
    return {name: sum(column) / (1 if name.endswith("_w") else len(column)) for name, column in columns.items()}
