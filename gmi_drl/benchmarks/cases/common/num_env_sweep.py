"""A search for the best number of environments for each number of GMIs on one device, within a time budget."""

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from gmi_drl.benchmarks.cases.common.sessions import of_layouts
from gmi_drl.errors import GmiError

if TYPE_CHECKING:
    from gmi_drl.config.run_config import RunConfig
    from gmi_drl.layout.layout import Layout
    from gmi_drl.profiler.session import Measured


@dataclass
class Sweep:
    """The result of a search: by the number of GMIs, the measurement with their best number of environments.

    `left_out` has the reason for each number of GMIs that was not measured or does not run.
    """

    best: "dict[int, Measured]" = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)

    def fastest(self, among: Iterable[int]) -> int | None:
        """The fastest number of GMIs of these; None if none of them runs."""
        found = [size for size in among if size in self.best]
        return max(found, key=lambda size: self.best[size].steps_per_second, default=None)

    def curves(self) -> dict[str, list[float]]:
        """Curves of the speed over the number of GMIs, and over SM activity if it is known for all."""
        sizes = sorted(self.best)
        activity = [list(self.best[size].devices.values()) for size in sizes]
        used = [found[0]["sm_util"] for found in activity if found and "sm_util" in found[0]]
        return {
            "GMIs": [float(size) for size in sizes],
            **({"SM activity, %": used} if len(used) == len(sizes) else {}),
            "steps/s": [self.best[size].steps_per_second for size in sizes],
        }


def sweep(
    layout_of: "Callable[[int], Layout]",
    config: "RunConfig",
    sizes: Sequence[int],
    totals: Sequence[int],
    seconds: float,
    budget_s: float,
) -> Sweep:
    """Measure each number of GMIs with more and more environments in all, until it becomes slower.

    If a measurement fails (out of memory, for example), the search goes on with the next number of GMIs.

    Args:
        layout_of: Returns the layout of a number of GMIs.
        config: The configuration of the training.
        sizes: Numbers of GMIs in the order in which they are tried.
        totals: Environments in all, ascending.
        seconds: Seconds of a measurement.
        budget_s: Seconds after which no further number of GMIs is tried.
    """
    found, end = Sweep(), time.monotonic() + budget_s
    for size in sizes:
        if time.monotonic() > end and found.best:
            found.left_out[f"{size} GMIs"] = f"not measured: the {budget_s:.0f} s of the search were over"
            continue
        try:
            with of_layouts({size: layout_of(size)}, config) as sessions:
                for total in totals:
                    measured = sessions[size].measure(max(1, total // size), seconds)
                    before = found.best.get(size)
                    if before is not None and measured.steps_per_second <= before.steps_per_second:
                        break
                    found.best[size] = measured
        except GmiError as error:
            found.left_out[f"{size} GMIs"] = str(error).splitlines()[0]
    return found
