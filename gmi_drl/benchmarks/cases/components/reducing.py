"""What the reduction cases have in common: GMIs that reduce by turns, each time by the group that they are told."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gmi_drl.gmi import Claim
    from gmi_drl.launch.processes.gmi_processes import GMIProcesses
    from gmi_drl.layout.layout import Layout

HANG_S = 120.0
ROLE = "gmi_drl.benchmarks.cases.components.reduction_role:Reducer"


@contextmanager
def reducing(
    claim: "Claim", layout: "Layout", numels: Mapping[str, int], reduces: Mapping[str, int]
) -> Iterator["GMIProcesses"]:
    """The GMIs of a layout, each ready to reduce in all groups, for the time of a `with` block.

    Args:
        claim: Of the layout's devices.
        layout: Whose groups.
        numels: Float32 numbers, by group.
        reduces: In one measurement, by group.
    """
    from gmi_drl.launch.open_layout import opened_briefly

    params = {"numels": dict(numels), "reduces": dict(reduces)}
    slot_bytes = 4 * max(numels.values())
    with opened_briefly(claim, layout, ROLE, params, slot_bytes=slot_bytes, hang_s=HANG_S) as processes:
        yield processes


def ask(processes: "GMIProcesses", group: str) -> dict[str, float]:
    """Have all ranks reduce in a group, and take in what the first of them saw (`reducer.Station.measure`)."""
    from gmi_drl.errors import GmiError
    from gmi_drl.launch.processes.gmi_processes import GMIMessage
    from gmi_drl.roles.launcher.protocol import Reduce, Report

    for gmi in processes.layout.gmis:
        processes.say(gmi.id, Reduce(group))
    for event in processes.events(silence_s=HANG_S):
        if isinstance(event, GMIMessage) and isinstance(event.word, Report):
            return event.word.row
    raise GmiError(f"the GMIs ended before they had reduced in {group}")
