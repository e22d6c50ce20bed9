"""Where all ranks meet: each call begins with one exchange that shows whether all make the same."""

import struct
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from hashlib import blake2b
from typing import NamedTuple, SupportsBytes

import numpy as np
import torch
from torch import Tensor

from gmi_drl.comm.links.link import MovingLink
from gmi_drl.errors import UsageError
from gmi_drl.replay.indices import Integers

FACTS = 5
"""Numbers that a rank tells all others at the beginning of a call."""

Words = str | SupportsBytes
"""What a rank does: a text, or what has one (`str`) and bytes that differ wherever it does, which take less time."""

_HEAD = 3  # the digest of the call, a number for this peer alone, and how many numbers are sent at once


class Met(NamedTuple):
    """What all have told.

    Args:
        facts: Of all ranks, int64 `[ranks, FACTS]`.
        told: To this rank alone, `[ranks]`.
        came: What other ranks have sent at once, int64 `[n]` by rank.
    """

    facts: Integers
    told: Integers
    came: dict[int, Tensor]


class Meeting:
    """Exchanges between all ranks, with their bytes counted by kind.

    Args:
        link: Of these exchanges alone.

    Attributes:
        bytes: That this rank has sent, by kind.
        calls: That all ranks have made so far.
        device: Where large vectors to move should lie.
    """

    def __init__(self, link: MovingLink) -> None:
        self.rank, self.size, self.device = link.rank, link.size, link.device
        self.others = [rank for rank in range(link.size) if rank != link.rank]
        self.bytes: Counter[str] = Counter()
        self.calls = 0
        self._link = link
        self._said, self._heard = np.zeros((2, link.size, _HEAD + FACTS), dtype=np.int64)
        self._sends: dict[int, tuple[Tensor, ...]] = {
            rank: (torch.from_numpy(self._said[rank]),) for rank in self.others
        }
        self._into = {rank: (torch.from_numpy(self._heard[rank]),) for rank in self.others}

    def agree(
        self,
        words: Words,
        facts: Sequence[int],
        told: Sequence[int] | None = None,
        at_once: Mapping[int, Tensor] | None = None,
    ) -> Met:
        """Begin a call.

        Args:
            words: What this rank does, all of it: "selects 32 by Uniform()"; its text is read if others do not.
            facts: Numbers for all ranks, `FACTS` at most.
            told: A number for each rank alone.
            at_once: Rows for some ranks, int64 `[n]`, n > 0. They go with the agreement, which saves an exchange. The
                receiver throws them away if it does something else.

        Raises:
            UsageError: if another rank does something else. All raise it, in the same words.
        """
        said, heard, came = self._said, self._heard, dict[int, Tensor]()
        said[:, 1] = 0 if told is None else told
        said[:, _HEAD : _HEAD + len(facts)] = facts
        if self.others:
            said[:, 0] = _digest(words)
            self._exchange_heads(at_once)
            if sizes := {rank: size for rank, size in enumerate(heard[:, 2].tolist()) if size}:
                came = {rank: torch.empty(size, dtype=torch.int64) for rank, size in sizes.items()}
                self._link.move_several({}, {rank: (rows,) for rank, rows in came.items()})
        heard = heard.copy()
        heard[self.rank] = said[self.rank]
        self.calls += 1
        if self.others and len(set(heard[:, 0].tolist())) > 1:
            self._refuse(str(words), heard[:, 0])
        return Met(heard[:, _HEAD:], heard[:, 1], came)

    def gather(self, kind: str, own: Tensor, sizes: Sequence[int]) -> list[Tensor]:
        """The vectors of all ranks, which have these sizes and the type of this rank's."""
        came = self.exchange(
            kind, dict.fromkeys(self.others, own), {rank: sizes[rank] for rank in self.others}, own.dtype
        )
        return [came.get(rank, own) for rank in range(self.size)]

    def exchange(
        self, kind: str, sends: dict[int, Tensor], sizes: dict[int, int], dtype: torch.dtype = torch.int64
    ) -> dict[int, Tensor]:
        """Send a vector to each of some ranks, receive one of these sizes from each of others. Returns what came."""
        into = {rank: torch.empty(size, dtype=dtype) for rank, size in sizes.items()}
        self.move(kind, {rank: (one,) for rank, one in sends.items()}, {rank: (one,) for rank, one in into.items()})
        return into

    def move(self, kind: str, sends: Mapping[int, Sequence[Tensor]], into: Mapping[int, Sequence[Tensor]]) -> None:
        """Send vectors to some ranks, and receive some from others, into memory that is there."""
        self.bytes[kind] += _bytes_of(part for parts in sends.values() for part in parts)
        self._link.move_several(sends, into)

    def texts(self, kind: str, own: str) -> list[str]:
        """The texts of all ranks, of any length."""
        content = torch.frombuffer(bytearray(own.encode() or b" "), dtype=torch.uint8)
        sizes = torch.cat(self.gather(kind, torch.tensor([len(content)]), [1] * self.size)).tolist()
        return [bytes(each.numpy()).decode().rstrip() for each in self.gather(kind, content, sizes)]

    def _exchange_heads(self, at_once: Mapping[int, Tensor] | None) -> None:
        """Send the heads, with what goes at once behind them, and receive those of others."""
        said, sends = self._said, self._sends
        said[:, 2] = 0
        self.bytes["agreement"] += said[0].nbytes * len(self.others)
        if at_once is not None:
            self.bytes["trajectories"] += _bytes_of(at_once.values())
            for rank, rows in at_once.items():
                said[rank, 2] = len(rows)
            sends = {rank: (*head, at_once[rank]) if rank in at_once else head for rank, head in sends.items()}
        self._link.move_several(sends, self._into)

    def _refuse(self, words: str, digests: Integers) -> None:
        """Raise the error of ranks that make different calls: the first rank, and the first that differs."""
        texts = self.texts("agreement", words)
        other = int(np.flatnonzero(digests != digests[0])[0])
        first, second = (f"rank {rank} {texts[rank]}" for rank in (0, other))
        raise UsageError(f"{first}, {second}: all ranks must make the same calls in the same order")


def bits_of(number: float) -> int:
    """The bits of a number, as an integer that can be exchanged."""
    return int(struct.unpack("<q", struct.pack("<d", number))[0])


def numbers_of(bits: Integers) -> Tensor:
    """The numbers `[n]` with these bits, float64."""
    return torch.from_numpy(np.ascontiguousarray(bits).view(np.float64))


def _digest(words: Words) -> int:
    content = words.encode() if isinstance(words, str) else bytes(words)
    return int.from_bytes(blake2b(content, digest_size=8).digest(), "little", signed=True)


def _bytes_of(vectors: Iterable[Tensor]) -> int:
    return sum(vector.numel() * vector.element_size() for vector in vectors)
