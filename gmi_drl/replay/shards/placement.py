"""On which rank a trajectory of a data set goes (GEAR 3.2: the likeliest to where pipelines begin). Pure: no torch.

Trajectories that are made online stay where they were made: `Local`, which is `Shards.allocate` and nothing else.
"""

import heapq
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from gmi_drl.errors import UsageError


@dataclass(frozen=True)
class Even:
    """Each rank in turn."""


@dataclass(frozen=True)
class ByPriority:
    """The likeliest on heads, so that the heads carry equal weight; what finds no room there on others, in turn.

    Args:
        heads: Ranks that collect.

    Raises:
        UsageError: if there is none, or one is there twice.
    """

    heads: tuple[int, ...]

    def __post_init__(self) -> None:
        if not self.heads or len(set(self.heads)) != len(self.heads):
            raise UsageError(f"heads are ranks, none twice, not {list(self.heads)}")


@dataclass(frozen=True)
class Local:
    """Where it was made.

    Args:
        makers: The rank that made each trajectory.
    """

    makers: tuple[int, ...]


Placement: TypeAlias = Even | ByPriority | Local


def plan_placement(weights: Sequence[float], capacity: int, ranks: int, how: Placement) -> list[int]:
    """Plan where trajectories go.

    Args:
        weights: Of each trajectory, 0 or more: the priority to the power of C, by which it will be drawn.
        capacity: Trajectories that a shard has room for.
        ranks: Shards.
        how: `Even()`, `ByPriority(heads)` or `Local(makers)`.

    Returns:
        The rank of each trajectory.

    Raises:
        UsageError: if they do not fit, or a weight or a rank is none.
    """
    _check(weights, capacity, ranks)
    if isinstance(how, Even):
        return [number % ranks for number in range(len(weights))]
    if isinstance(how, Local):
        return _local(how.makers, len(weights), capacity, ranks)
    if bad := [head for head in how.heads if not 0 <= head < ranks]:
        raise UsageError(f"rank {bad[0]} is no head: there are the ranks 0 to {ranks - 1}")
    likeliest = sorted(range(len(weights)), key=lambda number: -weights[number])
    owners = [0] * len(weights)
    on_heads, others = likeliest[: capacity * len(how.heads)], likeliest[capacity * len(how.heads) :]
    load = [(0.0, 0, head) for head in how.heads]  # weight, trajectories, rank: the lightest is next
    for number in on_heads:
        weight, count, head = heapq.heappop(load)
        owners[number] = head
        if count + 1 < capacity:
            heapq.heappush(load, (weight + weights[number], count + 1, head))
    served_by = [rank for rank in range(ranks) if rank not in how.heads]
    for place, number in enumerate(others):
        owners[number] = served_by[place % len(served_by)]
    return owners


def expected_local(weights: Sequence[float], owners: Sequence[int], heads: Sequence[int]) -> float:
    """The share of what heads collect that lies in their own shards, if trajectories are drawn by these weights.

    Each head collects the whole list, or an equal part of it. If all weights are 0, each is as likely.

    Args:
        weights: Of each trajectory.
        owners: The rank of each.
        heads: Ranks that collect.
    """
    if len(weights) != len(owners) or not weights or not heads:
        raise UsageError(f"{len(weights)} weights, {len(owners)} owners, {len(heads)} heads: one owner for each weight")
    likely = weights if sum(weights) else [1.0] * len(weights)
    are_heads = set(heads)
    local = sum(weight for weight, owner in zip(likely, owners, strict=True) if owner in are_heads)
    return local / sum(likely) / len(heads)


def _check(weights: Sequence[float], capacity: int, ranks: int) -> None:
    if capacity < 1 or ranks < 1 or len(weights) > capacity * ranks:
        room = f"{ranks} shards of {capacity}"
        raise UsageError(f"{len(weights)} trajectories do not fit into {room}: make shards larger, or take more ranks")
    if bad := [weight for weight in weights if not 0 <= weight < float("inf")]:
        raise UsageError(f"a weight is a number of 0 or more, not {bad[0]}")


def _local(makers: Sequence[int], count: int, capacity: int, ranks: int) -> list[int]:
    if len(makers) != count or any(not 0 <= maker < ranks for maker in makers):
        raise UsageError(f"{count} trajectories have as many makers, of the ranks 0 to {ranks - 1}")
    made = Counter(makers)
    if full := [rank for rank in range(ranks) if made[rank] > capacity]:
        text = f"rank {full[0]} has made {made[full[0]]} trajectories, its shard has room for {capacity}"
        raise UsageError(f"{text}: the oldest would be evicted")
    return list(makers)
