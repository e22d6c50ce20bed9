"""The legs of each reduction on a mapping list: rounds and bytes by each way, for the alpha-beta model (`speeds`)."""

from collections.abc import Callable

from gmi_drl.hardware.speeds import LINK, MEMORY
from gmi_drl.layout.mapping import MappingList, shortest, size_of
from gmi_drl.layout.reduction_method import Leg


def nothing(mapping: MappingList) -> list[Leg]:
    """No legs: a single GMI has nothing to sum."""
    return []


def flat(way: str) -> Callable[[MappingList], list[Leg]]:
    """The legs of a reduction of all ranks by one way, wherever they are."""
    return lambda mapping: [_within(way, size_of(mapping))]


def mrr(mapping: MappingList) -> list[Leg]:
    """Synchronisation, a ring between the devices, a ring of the delegates, and a broadcast along the first ring."""
    devices, gmis = len(mapping), len(mapping[0])
    rings = [_ring(devices)] if gmis == 1 else [_ring(devices), _ring(gmis), Leg(LINK, devices - 1, 1)]
    return [Leg(MEMORY, 1, 0), *_barrier(mapping), *rings]


def har(mapping: MappingList) -> list[Leg]:
    """MPR within the largest device, a ring of the leaders, and copies of the result."""
    return [_within(MEMORY, max(map(len, mapping))), *_barrier(mapping), _ring(len(mapping)), Leg(MEMORY, 2, 1)]


def shard(mapping: MappingList) -> list[Leg]:
    """As HAR, but with as many leaders of each device as the smallest device has GMIs. A device sends as much."""
    back = Leg(MEMORY, 2, 1 - 1 / shortest(mapping))
    return [_within(MEMORY, max(map(len, mapping))), *_barrier(mapping), _ring(len(mapping)), back]


def _within(way: str, size: int) -> Leg:
    """An all-reduce among `size` ranks: 2 (n - 1) M / n (Table 5)."""
    return Leg(way, 2, 2 * (size - 1) / size)


def _barrier(mapping: MappingList) -> list[Leg]:
    """A barrier between devices before a sum: each rank sends all others which operation it begins."""
    return [Leg(LINK, 1, 0)] if len(mapping) > 1 else []


def _ring(size: int) -> Leg:
    """An all-reduce along a ring: each round sends one of n chunks."""
    return Leg(LINK, 2 * (size - 1), 2 * (size - 1) / size)
