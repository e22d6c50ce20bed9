"""Readings of meters over intervals of time, and their means."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

Usage = dict[str, dict[str, float]]
"""Means of meters by device: `{"gpu0": {"sm_util": 41.0, "power_w": 310.0}}`.

A device is a GPU by its index in the layout, or one of its MIG instances (`gpu0/gi2`). Hopper and newer GPUs have
`sm_util` (SMs with a warp), `sm_occupancy` (active warps of those that fit) and `dram_bandwidth` (of the maximum).
Others have `gpu_busy` (time in which any kernel ran, on however few SMs). All are in percent. `power_w`, in watts, is
that of the whole GPU.
"""


@dataclass(frozen=True)
class Reading:
    """The meters' means over the time from `start_s` to `end_s` (`time.monotonic`)."""

    start_s: float
    end_s: float
    usage: Usage

    @property
    def seconds(self) -> float:
        """The length of the interval."""
        return self.end_s - self.start_s


def mean(readings: Iterable[Reading]) -> Usage:
    """The mean of each meter, weighted by time, over the readings that have it: a meter may fail now and then."""
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
    """Two successive readings as one."""
    return Reading(first.start_s, second.end_s, mean((first, second)))
