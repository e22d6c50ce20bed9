"""What so many cores could do at most of a training: each simulates, acts and learns in turn, and waits for nobody."""

from typing import TYPE_CHECKING

from gmi_drl.benchmarks.case import Sample
from gmi_drl.benchmarks.cases.common.sessions import of_layouts

if TYPE_CHECKING:
    from gmi_drl.config.run_config import RunConfig
    from gmi_drl.layout.layout import Layout

BOUND_S = 10.0
"""Seconds that are measured at most: one core alone has no waits that a longer time would show."""


def core_bound(layout: "Layout", config: "RunConfig", cores: int, seconds: float) -> Sample:
    """Steps/s of so many cores by the seconds of each step on one of them, while nothing else runs.

    Args:
        layout: One holistic GMI on one core.
        config: Of the training.
        cores: How many there are.
        seconds: To measure for, at most `BOUND_S`.

    Returns:
        The cores divided by the sum of the parts of a step; details have each part in seconds of a step, in the order
        of simulation, forward pass, and update with its epochs.
    """
    (gmi,) = layout.gmis
    with of_layouts({layout.task: layout}, config) as sessions:
        measured = sessions[layout.task].measure(gmi.num_env, min(seconds, BOUND_S))
    steps = gmi.num_env * config.learner.horizon
    parts = {f"{name}_of_step_s": measured.phases[f"{name}_s"] / steps for name in ("sim", "act", "learn")}
    return Sample(cores / sum(parts.values()), parts)
