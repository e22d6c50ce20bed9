"""Selection as in GEAR 3.3: one rank gathers indices and weights of all, selects, and tells the others the list.

Here as a baseline. It is deterministic for a seed and does not depend on how many ranks share the trajectories.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from gmi_drl.errors import UsageError
from gmi_drl.replay.limiters import ReplayTimeoutError
from gmi_drl.replay.shards.calls import Calls
from gmi_drl.replay.shards.chances import Choice
from gmi_drl.replay.shards.meeting import bits_of, numbers_of
from gmi_drl.replay.shards.selection import generator_of

_CENTRE = 0
_SLOT = (1 << 32) - 1  # of a key


def select_centrally(
    calls: Calls, words: str, count: int, choice: Choice, seed: int, number: int, is_late: bool
) -> tuple[Tensor | None, int]:
    """Select once, as `Selection.attempt` does; the bytes are O(trajectories of all shards).

    Returns:
        Indices int64 `[n]`, whose own part is held, or None if there was nothing; and how many trajectories there are.

    Raises:
        UsageError: also if the way draws no random trajectories with replacement.
        ReplayTimeoutError: as `Selection.attempt`.
    """
    shard, meeting = calls.shard, calls.meeting
    there, weights = torch.empty(0, dtype=torch.int64), torch.empty(0, dtype=torch.float64)

    def tell() -> Sequence[int]:
        nonlocal there, weights
        with shard.lock:  # all that is told is held until the list is there
            shard.release(there)
            shard.meeting = meeting.calls
            there = (shard.keys > 0).nonzero().flatten()
            weights = shard.chances.weights(choice, shard.keys[there] & _SLOT)
            shard.hold(there)
        return is_late, len(there), bits_of(float(weights.sum()))

    try:
        rows = calls.begin(words, tell)
        if choice.is_ranked:
            raise UsageError("central selection is by Uniform() or Weighted(), with replacement")
        choice.check_total(float(numbers_of(rows[:, 2]).sum()))
        sizes = rows[:, 1].tolist()
        if not sum(sizes):
            if rows[:, 0].any():
                raise ReplayTimeoutError("no shard has a trajectory to select, and a rank has waited for its timeout")
            return None, 0
        indices = _list(calls, there, weights, sizes, count, generator_of(seed, number, "central"))
        shard.hold(indices[indices // shard.trajectories == meeting.rank] % shard.trajectories)
        calls.as_of = meeting.calls
        return indices, sum(sizes)
    finally:
        shard.release(there)


def _list(
    calls: Calls, there: Tensor, weights: Tensor, sizes: list[int], count: int, generator: torch.Generator
) -> Tensor:
    """Gather, select, and broadcast."""
    meeting, each = calls.meeting, calls.shard.trajectories
    own = torch.cat((there + meeting.rank * each, weights.view(torch.int64)))
    if meeting.rank != _CENTRE:
        meeting.exchange("central", {_CENTRE: own}, {})
        return meeting.exchange("list", {}, {_CENTRE: count})[_CENTRE]
    came = meeting.exchange("central", {}, {rank: 2 * sizes[rank] for rank in meeting.others})
    parts = [own if rank == _CENTRE else came[rank] for rank in range(meeting.size)]
    indices = torch.cat([part[: len(part) // 2] for part in parts])
    sums = torch.cat([part[len(part) // 2 :] for part in parts]).view(torch.float64).cumsum(0)
    if not sums[-1]:
        sums = torch.arange(1, len(sums) + 1, dtype=torch.float64)
    points = torch.rand(count, dtype=torch.float64, generator=generator) * sums[-1]
    found = torch.searchsorted(sums, points.clamp_(max=torch.nextafter(sums[-1], torch.zeros(()).double())), right=True)
    indices = indices[found]
    meeting.exchange("list", dict.fromkeys(meeting.others, indices), {})
    return indices
