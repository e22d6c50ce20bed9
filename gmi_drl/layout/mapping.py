"""Mapping lists: which GMIs are on which device, and the reductions that this allows (paper section 4.1).

A mapping list has a list of GMI ids for each device: `[[0, 1], [2, 3]]` is two on each of two. Groups use ranks in
place of ids.
"""

from collections.abc import Callable, Hashable, Sequence
from typing import Literal

from gmi_drl.errors import UsageError

MappingList = Sequence[Sequence[int]]

Strategy = Literal["MPR", "MRR", "HAR"]


def check_mapping(mapping: MappingList) -> None:
    """Raise `UsageError` unless there are devices, each has GMIs, and no GMI is listed twice."""
    if not mapping:
        raise UsageError("a mapping list needs a device: [[0, 1], [2, 3]] is two GMIs on each of two")
    if not all(_is_list(part) for part in (mapping, *(mapping if _is_list(mapping) else ()))):
        raise UsageError(f"a mapping list has a list of GMIs for each device, as [[0, 1], [2, 3]], not {mapping!r}")
    seen: dict[int, int] = {}
    for device, gmis in enumerate(mapping):
        if not gmis:
            raise UsageError(f"device {device} of {_text(mapping)} has no GMI: leave it out")
        for gmi in gmis:
            if type(gmi) is not int or gmi < 0:
                raise UsageError(f"a GMI has a number from 0 on, not {gmi!r}")
            if gmi in seen:
                raise UsageError(f"GMI {gmi} is on device {seen[gmi]} and again on {device}: each is on one, once")
            seen[gmi] = device


def select_by_layout(mapping: MappingList) -> Strategy:
    """The paper's choice of a reduction by the layout alone (Algorithm 1 as printed).

    Raises:
        UsageError: If it is not a mapping list.
    """
    check_mapping(mapping)
    if len(mapping) <= 1:
        return "MPR"
    return "HAR" if mrr_obstacle(mapping) else "MRR"


def mrr_obstacle(mapping: MappingList) -> str | None:
    """Why multi-ring reduction (MRR) cannot sum over these GMIs; None if it can.

    Each ring needs a GMI on every device, and a delegate on a device without a delegate of another ring.
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
    """The number of GMIs on the device with the fewest."""
    return min(len(gmis) for gmis in mapping)


def leaders(mapping: MappingList, t: int = 0) -> list[int]:
    """The t-th GMI of each device: the paper's `GMI_id % M == t` for M GMIs with consecutive ids on each device.

    Raises:
        UsageError: If a device has too few.
    """
    if not 0 <= t < shortest(mapping):
        raise UsageError(
            f"leader {t} (from 0) of each device needs {t + 1} GMIs on it, {_text(mapping)} has fewer on one"
        )
    return [gmis[t] for gmis in mapping]


def even_mapping(devices: int, gmis: int) -> list[range]:
    """The mapping list of `gmis` GMIs on each of `devices` devices, with consecutive ids."""
    return [range(device * gmis, (device + 1) * gmis) for device in range(devices)]


def by_device(members: Sequence[int], device_of: Callable[[int], Hashable]) -> list[list[int]]:
    """The mapping list of some GMIs, in their order; devices in the order of first occurrence."""
    mapping: dict[Hashable, list[int]] = {}
    for member in members:
        mapping.setdefault(device_of(member), []).append(member)
    return list(mapping.values())


def rings(mapping: MappingList) -> list[list[int]]:
    """The rings: ring j joins the j-th GMI of every device, up to the size of the smallest device."""
    return [leaders(mapping, j) for j in range(shortest(mapping))]


def delegates(mapping: MappingList) -> list[int]:
    """The delegate of each ring: ring j's member on device j, so all are on different devices.

    Raises:
        UsageError: If MRR cannot be used on this list.
    """
    if obstacle := mrr_obstacle(mapping):
        raise UsageError(f"a multi-ring reduction {obstacle}")
    return [ring[j] for j, ring in enumerate(rings(mapping))]


def mpr_seconds(g: int, t: int, M_p: float, B_1: float) -> float:
    """Table 2: seconds of MPR.

    Args:
        g: GPUs.
        t: GMIs of each GPU.
        M_p: Bytes of the policy's parameters.
        B_1: Bytes per second between processes of a host.
    """
    return 2 * (g * t - 1) * M_p / (g * t * B_1)


def mrr_seconds(g: int, t: int, M_p: float, B_2: float) -> float:
    """Table 2: seconds of MRR, with `B_2` bytes per second between GPUs; the rest as in `mpr_seconds`."""
    return 2 * (g - 1) * (t + 1) * M_p / (g * B_2)


def har_seconds(g: int, t: int, M_p: float, B_1: float, B_2: float) -> float:
    """Table 2: seconds of HAR; see `mpr_seconds` and `mrr_seconds`."""
    return 2 * (g - 1) * M_p / (g * B_2) + 2 * (t - 1) * M_p / (t * B_1)


def _is_list(part: object) -> bool:
    return isinstance(part, Sequence) and not isinstance(part, str)


def _text(mapping: MappingList) -> str:
    return str([list(gmis) for gmis in mapping])


def _listed(counts: Sequence[int]) -> str:
    return " and ".join(map(str, counts))
