"""Where all ranks meet: each call begins with one exchange that shows whether all make the same."""

import struct
from collections import Counter
from collections.abc import Mapping, Sequence
from hashlib import blake2b

import numpy as np
import torch
from torch import Tensor

from gmi_drl.comm.links.link import MovingLink
from gmi_drl.errors import UsageError
from gmi_drl.replay.indices import Integers

FACTS = 6
"""Numbers that a rank tells all others at the beginning of a call."""

_WORDS = 1024
_HEAD = 2  # the digest of the call, and a number for this peer alone


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
        self._sends = {rank: (torch.from_numpy(self._said[rank]),) for rank in self.others}
        self._into = {rank: (torch.from_numpy(self._heard[rank]),) for rank in self.others}

    def agree(
        self, words: object, facts: Sequence[int], told: Sequence[int] | None = None
    ) -> tuple[Integers, Integers]:
        """Begin a call.

        Args:
            words: What this rank does, all of it, as a text: "selects 32 by Uniform()"; read if there are others.
            facts: Numbers for all ranks, `FACTS` at most.
            told: A number for each rank alone.

        Returns:
            The facts of all, int64 `[ranks, FACTS]`, and the numbers that were told to this rank, `[ranks]`.

        Raises:
            UsageError: if another rank does something else. All raise it, in the same words.
        """
        said, heard = self._said, self._heard
        said[:, 1] = 0 if told is None else told
        said[:, _HEAD : _HEAD + len(facts)] = facts
        if self.others:
            text = str(words)
            said[:, 0] = int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "little", signed=True)
            self.move("agreement", self._sends, self._into)
        heard = heard.copy()
        heard[self.rank] = said[self.rank]
        self.calls += 1
        if self.others and (heard[:, 0] != said[0, 0]).any():
            self._refuse(text, heard[:, 0])
        return heard[:, _HEAD:], heard[:, 1]

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
        self._move(kind, sends, into)
        return into

    def move(self, kind: str, sends: Mapping[int, Sequence[Tensor]], into: Mapping[int, Sequence[Tensor]]) -> None:
        """Send vectors to some ranks, and receive some from others, into memory that is there."""
        self.bytes[kind] += sum(part.numel() * part.element_size() for parts in sends.values() for part in parts)
        self._link.move_several(sends, into)

    def _move(self, kind: str, sends: dict[int, Tensor], into: dict[int, Tensor]) -> None:
        self.move(kind, {rank: (one,) for rank, one in sends.items()}, {rank: (one,) for rank, one in into.items()})

    def _refuse(self, words: str, digests: Integers) -> None:
        """Raise the error of ranks that make different calls: the first rank, and the first that differs."""
        text = words.encode()[:_WORDS]
        own = torch.frombuffer(bytearray(text.ljust(_WORDS)), dtype=torch.uint8)
        texts = self.gather("agreement", own, [_WORDS] * self.size)
        other = int(np.flatnonzero(digests != digests[0])[0])
        first, second = (
            f"rank {rank} {bytes(texts[rank].numpy()).decode(errors='replace').rstrip()}" for rank in (0, other)
        )
        raise UsageError(f"{first}, {second}: all ranks must make the same calls in the same order")


def bits_of(number: float) -> int:
    """The bits of a number, as an integer that can be exchanged."""
    return int(struct.unpack("<q", struct.pack("<d", number))[0])


def numbers_of(bits: Integers) -> Tensor:
    """The numbers `[n]` with these bits, float64."""
    return torch.from_numpy(np.ascontiguousarray(bits).view(np.float64))
