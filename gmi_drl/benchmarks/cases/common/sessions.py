"""Sides that are layouts on the same devices; one runs at a time."""

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
    """A profiling session for each layout.

    Args:
        layouts: Layouts by name.
        config: The configuration of the training.
        environments: By name of a layout, environment variables of its GMIs that replace those of the backend; None
            removes a variable.
    """
    from gmi_drl.profiler.session import Session
    from gmi_drl.profiler.sessions import Sessions

    given = environments or {}
    sessions = {name: Session(layout, config, environment=given.get(name)) for name, layout in layouts.items()}
    return Sessions(sessions, PURPOSE)


def training_side(sessions: "Sessions[Name]", name: Name, num_env: int | None, seconds: float) -> Side:
    """A side that measures the steps per second of a layout; details have the seconds of the phases.

    Each GMI has `num_env` environments, or as many as in the layout if `num_env` is None.
    """

    def measure() -> Sample:
        session = sessions[name]
        measured = session.measure(num_env, seconds)
        shape = {"num_env": measured.num_env, "gmis": len(session.layout.gmis)}
        numbers = {"memory_bytes": measured.memory_bytes, **measured.phases, **usage_details(measured.devices)}
        return Sample(measured.steps_per_second, {**shape, **numbers})

    return measure


def usage_details(devices: "Usage") -> dict[str, float]:
    """Utilisation of GPUs as details of a sample: percentages are means over the devices, watts are sums."""
    columns: dict[str, list[float]] = {}
    for values in devices.values():
        for name, value in values.items():
            columns.setdefault(name, []).append(value)
    return {name: sum(column) / (1 if name.endswith("_w") else len(column)) for name, column in columns.items()}
