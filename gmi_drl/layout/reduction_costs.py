"""What each reduction does on a mapping list: rounds and bytes of its ways, for the alpha-beta model (`speeds`)."""

from collections.abc import Callable

from gmi_drl.hardware.speeds import LINK, MEMORY
from gmi_drl.layout.mapping import MappingList, shortest, size_of
from gmi_drl.layout.reduction_method import Leg


def nothing(mapping: MappingList) -> list[Leg]:
    """Of a GMI alone."""
    return []


def flat(way: str) -> Callable[[MappingList], list[Leg]]:
    """All ranks by one way, wherever they are."""
    return lambda mapping: [_within(way, size_of(mapping))]


def mrr(mapping: MappingList) -> list[Leg]:
    """A meeting, a ring between the devices, one of the delegates, and the broadcast along the first."""
    devices, gmis = len(mapping), len(mapping[0])
    rings = [_ring(devices)] if gmis == 1 else [_ring(devices), _ring(gmis), Leg(LINK, devices - 1, 1)]
    return [Leg(MEMORY, 1, 0), *_meeting(mapping), *rings]


def har(mapping: MappingList) -> list[Leg]:
    """As MPR within the largest device, its leader's ring, and copies of what comes of it."""
    return [_within(MEMORY, max(map(len, mapping))), *_meeting(mapping), _ring(len(mapping)), Leg(MEMORY, 2, 1)]


def shard(mapping: MappingList) -> list[Leg]:
    """As HAR with as many leaders of a device as the least has GMIs; what a device sends is the same."""
    back = Leg(MEMORY, 2, 1 - 1 / shortest(mapping))
    return [_within(MEMORY, max(map(len, mapping))), *_meeting(mapping), _ring(len(mapping)), back]


def _within(way: str, size: int) -> Leg:
    """All-reduce among so many: 2 (n - 1) M / n (Table 5)."""
    return Leg(way, 2, 2 * (size - 1) / size)


def _meeting(mapping: MappingList) -> list[Leg]:
    """Each rank tells all others that it is there, and for what; between devices no sum begins before."""
    return [Leg(LINK, 1, 0)] if len(mapping) > 1 else []


def _ring(size: int) -> Leg:
    """All-reduce along a ring: each round a chunk, of n."""
    return Leg(LINK, 2 * (size - 1), 2 * (size - 1) / size)
