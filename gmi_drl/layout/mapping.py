"""Which GMIs are on which device, and what that makes possible between them (paper section 4.1).

A mapping list has the ids of the GMIs of each device: `[[0, 1], [2, 3]]` is two on each of two. Groups use it with
ranks in the place of ids.
"""

from collections.abc import Callable, Hashable, Sequence
from typing import Literal

from gmi_drl.errors import UsageError

MappingList = Sequence[Sequence[int]]

Strategy = Literal["MPR", "MRR", "HAR"]


def check_mapping(mapping: MappingList) -> None:
    """Raise `UsageError` unless there are devices, each has GMIs, and no GMI is there twice."""
    if not mapping:
        raise UsageError("a mapping list needs a device: [[0, 1], [2, 3]] is two GMIs on each of two")
    if not all(_is_list(part) for part in (mapping, *(mapping if _is_list(mapping) else ()))):
        raise UsageError(f"a mapping list has a list of GMIs for each device, as [[0, 1], [2, 3]], not {mapping!r}")
    seen: dict[int, int] = {}
    for device, gmis in enumerate(mapping):
        if not gmis:
            raise UsageError(f"device {device} of {_said(mapping)} has no GMI: leave it out")
        for gmi in gmis:
            if type(gmi) is not int or gmi < 0:
                raise UsageError(f"a GMI has a number from 0 on, not {gmi!r}")
            if gmi in seen:
                raise UsageError(f"GMI {gmi} is on device {seen[gmi]} and again on {device}: each is on one, once")
            seen[gmi] = device


def select_by_layout(mapping: MappingList) -> Strategy:
    """Algorithm 1 as printed: the paper's choice, by the layout alone.

    Raises:
        UsageError: If it is no mapping list.
    """
    check_mapping(mapping)
    if len(mapping) <= 1:
        return "MPR"
    return "HAR" if mrr_obstacle(mapping) else "MRR"


def mrr_obstacle(mapping: MappingList) -> str | None:
    """Why rings cannot sum over these GMIs (multi-ring reduction); None if they can.

    Each ring needs a GMI on every device, and a delegate on a device that no other ring's delegate is on.
    """
    counts = sorted({len(gmis) for gmis in mapping})
    if len(counts) > 1:
        return f"needs as many GMIs on every device, not {_listed(counts)}"
    if counts[0] > len(mapping):
        return f"needs at most as many GMIs per device as devices, not {counts[0]} on {len(mapping)}"
    return None


def size_of(mapping: MappingList) -> int:
    """The number of GMIs in all."""
    return sum(map(len, mapping))


def shortest(mapping: MappingList) -> int:
    """The number of GMIs that every device has at least."""
    return min(len(gmis) for gmis in mapping)


def leaders(mapping: MappingList, t: int = 0) -> list[int]:
    """The t-th GMI of each device's own list: the paper's `GMI_id % M == t` where M on each have ids in a row.

    Raises:
        UsageError: If a device has none.
    """
    if not 0 <= t < shortest(mapping):
        raise UsageError(f"a device of {_said(mapping)} has {shortest(mapping)} GMIs, so no leader number {t}")
    return [gmis[t] for gmis in mapping]


def even_mapping(devices: int, gmis: int) -> list[range]:
    """So many GMIs on each of so many devices, their ids in a row."""
    return [range(device * gmis, (device + 1) * gmis) for device in range(devices)]


def by_device(members: Sequence[int], device_of: Callable[[int], Hashable]) -> list[list[int]]:
    """The mapping list of some GMIs, in their order; the device of the first comes first."""
    mapping: dict[Hashable, list[int]] = {}
    for member in members:
        mapping.setdefault(device_of(member), []).append(member)
    return list(mapping.values())


def rings(mapping: MappingList) -> list[list[int]]:
    """Ring j joins the j-th GMI of every device, for as many j as every device has."""
    return [leaders(mapping, j) for j in range(shortest(mapping))]


def delegates(mapping: MappingList) -> list[int]:
    """Who speaks for each ring: ring j's member on device j, so that no device is there twice.

    Raises:
        UsageError: If MRR is not for this list.
    """
    if obstacle := mrr_obstacle(mapping):
        raise UsageError(f"a multi-ring reduction {obstacle}")
    return [ring[j] for j, ring in enumerate(rings(mapping))]


def mpr_seconds(g: int, t: int, M_p: float, B_1: float) -> float:
    """Table 2: what MPR takes.

    Args:
        g: GPUs.
        t: GMIs of each.
        M_p: Bytes of the policy's parameters.
        B_1: Bytes per second between processes of a host.
    """
    return 2 * (g * t - 1) * M_p / (g * t * B_1)


def mrr_seconds(g: int, t: int, M_p: float, B_2: float) -> float:
    """Table 2: what MRR takes, with `B_2` bytes per second between GPUs; the rest as for `mpr_seconds`."""
    return 2 * (g - 1) * (t + 1) * M_p / (g * B_2)


def har_seconds(g: int, t: int, M_p: float, B_1: float, B_2: float) -> float:
    """Table 2: what HAR takes; see `mpr_seconds` and `mrr_seconds`."""
    return 2 * (g - 1) * M_p / (g * B_2) + 2 * (t - 1) * M_p / (t * B_1)


def _is_list(part: object) -> bool:
    return isinstance(part, Sequence) and not isinstance(part, str)


def _said(mapping: MappingList) -> str:
    return str([list(gmis) for gmis in mapping])


def _listed(counts: Sequence[int]) -> str:
    return " and ".join(map(str, counts))
