"""Opening of shards, by the same call on all ranks."""

import json
import socket
from collections.abc import Callable, Sequence
from pathlib import Path

import torch

from gmi_drl.comm.links.link import MovingLink
from gmi_drl.errors import UsageError
from gmi_drl.hardware.host_memory import check_available
from gmi_drl.replay.fields import Signature
from gmi_drl.replay.items import LONGEST
from gmi_drl.replay.selectors import Fifo, Selector
from gmi_drl.replay.shards.meeting import Meeting
from gmi_drl.replay.shards.shard import Shard
from gmi_drl.replay.shards.shards import Shards
from gmi_drl.replay.storage import make_storage
from gmi_drl.replay.storage.base import BLOCK_FOR_EACH

PLACEMENTS = ("cpu", "shared", "pinned", "file")

_ENTRY_BYTES = 250
"""About so much memory a trajectory takes beside its steps."""


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
        placement: `cpu`, `shared`, `pinned` or `file`. Ranks of one host read each other's `shared` rows directly, if
            all collect to cores. Small requests (128 KiB) go with the agreement all the same.
        remover: Selects what is evicted; None for `Fifo()`.
        heads: The ranks that collect, such as the first stages of pipelines; None for all.
        seed: Of all draws.
        sync_every: How many selections of one kind go by what shards told last. More save a search of all items for
            ranked selections, and the totals' computation; in return shares are those of up to `sync_every - 1`
            selections ago, and newer trajectories are not among the best. Distinct draws are told each time. What is
            gone is never selected: the owner answers with what it has now (`Shards.stale` counts that).
        path: Of this rank's file, with the placement `file`; no two ranks of a host have the same.
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
    chosen = Fifo() if remover is None else remover
    if placement not in PLACEMENTS:
        raise UsageError(f"shards lie in {', '.join(PLACEMENTS)}, not {placement!r}")
    if not isinstance(chosen, Selector):
        raise UsageError(f"a remover is a selector of gmi_drl.replay.selectors, not {remover!r}")
    _check_sizes(trajectories, steps, 0 if placement == "file" else signature.step_bytes)
    at = device_of(device)

    def make(name: str) -> Shard:
        storage = make_storage(
            signature,
            trajectories * steps,
            placement=placement,
            longest=steps,
            device=at,
            path=path,
            fewest_blocks=BLOCK_FOR_EACH,
        )
        return Shard(name, storage, trajectories, steps, chosen, seed)

    return opened(link, make, signature, heads, seed, sync_every, path=path if placement == "file" else None)


def opened(
    link: MovingLink,
    make: Callable[[str], Shard],
    signature: Signature,
    heads: Sequence[int] | None,
    seed: int,
    sync_every: int = 1,
    of: str = "",
    path: Path | None = None,
) -> Shards:
    """The shards of all ranks.

    Args:
        link: As in `open_shards`.
        make: Makes the shard of this rank, which has the given name in messages.
        signature: Of a step.
        heads: As in `open_shards`.
        seed: As in `open_shards`.
        sync_every: As in `open_shards`.
        of: What else must be the same on all ranks, in words.
        path: Of the file that this rank writes; None if it writes none.

    Raises:
        UsageError: if a number is wrong, or ranks differ.
    """
    head_ranks = tuple(range(link.size)) if heads is None else tuple(heads)
    if not head_ranks or sorted(set(head_ranks)) != sorted(head_ranks) or not set(head_ranks) <= set(range(link.size)):
        raise UsageError(f"heads are ranks of 0 to {link.size - 1}, none twice, not {list(head_ranks)}")
    if not isinstance(sync_every, int) or isinstance(sync_every, bool) or sync_every < 1:
        raise UsageError(f"sync_every must be an integer of 1 at least, not {sync_every}")
    _compare(Meeting(link), signature, path)
    shard = make(f"shard {link.rank} of {link.size}")
    shards = Shards(link, shard, head_ranks, seed, sync_every)
    words = f"opens shards of {shard.trajectories} trajectories of {shard.steps} steps{of}, heads {list(head_ranks)}"
    shards.agree(f"{words}, seed {seed}, on {shard.storage.device.type}, sync_every {sync_every}")
    shards.read_near()
    return shards


def _compare(meeting: Meeting, signature: Signature, path: Path | None) -> None:
    """Raise, on all ranks, unless they have the same signature, and each a file of its own. Before any is written."""
    own = [signature.to_json(), _place_of(path), "" if path is None else str(path)]
    told = [json.loads(text) for text in meeting.texts("agreement", json.dumps(own))]
    of_first = Signature.from_json(told[0][0])
    writers = dict[str, int]()
    for rank, (fields, place, name) in enumerate(told):
        if difference := of_first.difference(Signature.from_json(fields)):
            raise UsageError(f"rank {rank} opens shards of another signature than rank 0: {difference}")
        if place and writers.setdefault(place, rank) != rank:
            text = f"ranks {writers[place]} and {rank} open the same file, {name}"
            raise UsageError(f"{text}: give each rank one of its own, such as shard-{rank}.replay")


def _place_of(path: Path | None) -> str:
    """What two paths have in common that lead to the same file of a host, whether it is there or not."""
    if path is None:
        return ""
    try:
        host = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        host = socket.gethostname()
    real = path.resolve()
    for place in (real, real.parent):  # a file that is not there is told by its folder
        if place.exists():
            there = place.stat()
            return f"{host} {there.st_dev} {there.st_ino} {'' if place == real else real.name}"
    return f"{host} {real}"


def device_of(device: torch.device | str) -> torch.device:
    """The device of this name.

    Raises:
        UsageError: if there is none.
    """
    try:
        return torch.device(device)
    except RuntimeError:
        raise UsageError(f"collected trajectories go to a device such as cpu or cuda:0, not {device!r}") from None


def _check_sizes(trajectories: int, steps: int, step_bytes: int) -> None:
    for number, what in ((trajectories, "trajectories"), (steps, "steps")):
        if not isinstance(number, int) or isinstance(number, bool):
            raise UsageError(f"{what} is an integer, not {number!r}")
    if trajectories < 1 or steps < 1:
        raise UsageError(f"a shard has room for 1 trajectory of 1 step at least, not {trajectories} of {steps}")
    if steps > LONGEST:
        raise UsageError(f"a trajectory has {LONGEST} steps at most, not {steps}")
    wanted = trajectories * (steps * step_bytes + _ENTRY_BYTES)
    check_available(wanted, f"{trajectories} trajectories of {steps} steps", "use fewer of them, or more ranks")
