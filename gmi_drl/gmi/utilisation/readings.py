"""Readings of meters over stretches of time, and their means."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

Usage = dict[str, dict[str, float]]
"""What meters tell, by device: `{"gpu0": {"sm_util": 41.0, "power_w": 310.0}}`.

A device is a GPU by its index in the layout, or one of its MIG instances (`gpu0/gi2`). Where there is Hopper or newer
it has `sm_util` (SMs that had a warp), `sm_occupancy` (warps that were active, of those that fit) and `dram_bandwidth`
(of the most that there is), elsewhere `gpu_busy` (time in which any kernel ran, which says nothing of how many SMs it
had); all in percent. `power_w` in watts is the whole GPU's.
"""


@dataclass(frozen=True)
class Reading:
    """What meters told of the time from `start_s` to `end_s` (`time.monotonic`)."""

    start_s: float
    end_s: float
    usage: Usage

    @property
    def seconds(self) -> float:
        """How long it lasted."""
        return self.end_s - self.start_s


def mean(readings: Iterable[Reading]) -> Usage:
    """Means of each meter, weighted by time: over the readings that have it, for a meter may fail now and then."""
    sums: defaultdict[tuple[str, str], float] = defaultdict(float)
    seconds: defaultdict[tuple[str, str], float] = defaultdict(float)
    for reading in readings:
        for device, values in reading.usage.items():
            for name, value in values.items():
                sums[device, name] += value * reading.seconds
                seconds[device, name] += reading.seconds
    usage: Usage = {}
    for (device, name), total in sums.items():
        usage.setdefault(device, {})[name] = round(total / seconds[device, name], 2)
    return usage


def merged(first: Reading, second: Reading) -> Reading:
    """Two that follow each other as one."""
    return Reading(first.start_s, second.end_s, mean((first, second)))
