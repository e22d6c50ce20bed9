"""Opening of shards, by the same call on all ranks."""

from collections.abc import Sequence
from pathlib import Path

import torch

from gmi_drl.comm.links.link import MovingLink
from gmi_drl.errors import UsageError
from gmi_drl.replay.fields import Signature
from gmi_drl.replay.selectors import Fifo, Selector
from gmi_drl.replay.shards.shard import Shard
from gmi_drl.replay.shards.shards import Shards


def open_shards(
    link: MovingLink,
    signature: Signature,
    *,
    trajectories: int,
    steps: int,
    placement: str = "shared",
    remover: Selector | None = None,
    heads: Sequence[int] | None = None,
    seed: int = 0,
    sync_every: int = 1,
    path: Path | None = None,
    device: torch.device | str = "cpu",
) -> Shards:
    """Open the shards of a group; a call of all its ranks, with the same arguments.

    Args:
        link: Between the ranks, of these shards alone: a thread of its own may use it.
        signature: Of a step.
        trajectories: Room of each shard.
        steps: Of the longest trajectory.
        placement: `cpu`, `shared`, `pinned` or `file`.
        remover: Selects what is evicted; None for `Fifo()`.
        heads: The ranks that collect, such as the first stages of pipelines; None for all.
        seed: Of all draws.
        sync_every: How many selections of one kind go by what shards told last. More save a search of all items for
            ranked selections, and the totals' computation; in return shares are those of up to `sync_every - 1`
            selections ago, and newer trajectories are not among the best. Distinct draws are told each time. What is
            gone is never selected: the owner answers with what it has now (`Shards.stale` counts that).
        path: Of this rank's file, with the placement `file`.
        device: Where collected trajectories go.

    Raises:
        UsageError: if a number is wrong, or ranks differ, with both.
        MachineError: if there is not as much memory.

    Example, one rank:
        >>> import torch
        >>> from gmi_drl.replay import Field, Signature
        >>> from gmi_drl.replay.shards import AloneLink, TopK, open_shards
        >>> shards = open_shards(AloneLink(), Signature([Field("x")]), trajectories=8, steps=2, sync_every=2)
        >>> _ = shards.insert({"x": torch.zeros(4, 2)}, priorities=torch.arange(4.0))
        >>> shards.select(2, TopK()).tolist()
        [3, 2]
        >>> _ = shards.insert({"x": torch.zeros(1, 2)}, priorities=9.0)
        >>> shards.select(2, TopK()).tolist()  # by what was told before
        [3, 2]
        >>> shards.select(2, TopK()).tolist()
        [4, 3]
    """
    head_ranks = tuple(range(link.size)) if heads is None else tuple(heads)
    if not head_ranks or sorted(set(head_ranks)) != sorted(head_ranks) or not set(head_ranks) <= set(range(link.size)):
        raise UsageError(f"heads are ranks of 0 to {link.size - 1}, none twice, not {list(head_ranks)}")
    if sync_every < 1:
        raise UsageError(f"sync_every must be 1 at least, not {sync_every}")
    name, chosen = f"shard {link.rank} of {link.size}", Fifo() if remover is None else remover
    shard = Shard(name, signature, trajectories, steps, placement, chosen, path, device, seed)
    shards = Shards(link, shard, head_ranks, seed, sync_every)
    words = f"opens shards of {trajectories} trajectories of {steps} steps, heads {list(head_ranks)}, seed {seed}"
    words += f", on {torch.device(device).type}"
    fields = ", ".join(f"{field} in {field.column}" for field in signature.fields)
    shards.agree(f"{words}, sync_every {sync_every}, fields {fields}")
    return shards
