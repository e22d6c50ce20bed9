"""What the ranks of a group meet in: made by the launcher, inherited by descriptor."""

import os
import secrets
import socket
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from gmi_drl.comm.links.handshake import RankAddresses, listen
from gmi_drl.comm.memory.segment import create_empty, create_segment, create_table, segment_bytes
from gmi_drl.errors import MachineError
from gmi_drl.layout.mapping import MappingList
from gmi_drl.layout.reduction_method import ReductionMethod


@dataclass(frozen=True)
class Rendezvous:
    """The descriptors that one rank inherits. `ReductionMethod.rendezvous_by` says which. The caller closes them.

    Args:
        segment: Shared memory (`memory.segment.create_segment`), or a table of the ranks alone
            (`memory.segment.create_table`) beside a store.
        store: An empty file in memory (`memory.segment.create_empty`), the same for all ranks, for one of torch's
            stores.
        listener: The socket at which this rank listens (`handshake.listen`).
        addresses: The addresses of all ranks (`RankAddresses.to_descriptor`).
    """

    segment: int | None = None
    store: int | None = None
    listener: int | None = None
    addresses: int | None = None

    @property
    def descriptors(self) -> dict[str, int]:
        """The descriptors that there are, by their names here."""
        return {name: value for name, value in vars(self).items() if isinstance(value, int)}

    def to_order(self) -> dict[str, int]:
        """As JSON."""
        return dict(self.descriptors)

    @classmethod
    def from_order(cls, order: Mapping[str, Any]) -> Self:
        """What `to_order` has written, in the process that has inherited it."""
        return cls(**order)

    def lacks(self, method: ReductionMethod) -> list[str]:
        """The names of descriptors that a method needs and that are missing."""
        return [name for name in NEEDS[method.rendezvous_by] if getattr(self, name) is None]


NEEDS: dict[str, tuple[str, ...]] = {
    "nothing": (),
    "segment": ("segment",),
    "store": ("segment", "store"),
    "links": ("segment", "listener", "addresses"),
}
"""By `ReductionMethod.rendezvous_by`. Ranks that meet by links share a segment only with those of their device."""

LINK_ALONE = ("listener", "addresses")
"""What ranks need for a `SocketLink` without a reduction."""


def link_name(group: str) -> str:
    """The name of the link of a group among the names of groups, which have no spaces."""
    return f"link of {group}"


class RendezvousPoints:
    """The rendezvous of all ranks of a group, or of those on this host.

    If ranks are on several hosts, each host gets the `addresses` of all by `set_addresses`. Close it when the ranks are
    started: from then on nobody answers for a rank that ended before it connected.

    Args:
        method: The reduction; None for a link alone.
        mapping: The ranks of each device.
        slot_bytes: Shared memory for each rank; longer vectors are reduced in pieces.
        ranks: The ranks of this host; None: all.
        host: The address of this host by which the others reach it.

    Raises:
        MachineError: If there is no room for the shared memory, or there are too many descriptors.
    """

    def __init__(
        self,
        method: ReductionMethod | None,
        mapping: MappingList,
        slot_bytes: int,
        *,
        ranks: Collection[int] | None = None,
        host: str = "127.0.0.1",
    ) -> None:
        self._host = host
        self._segments: dict[int, int] = {}  # by rank
        self._listeners: dict[int, socket.socket] = {}
        self._store: int | None = None
        self._addresses: int | None = None
        try:
            everyone = sorted(rank for device in mapping for rank in device)
            self._make(method, mapping, slot_bytes, everyone if ranks is None else sorted(ranks))
            if ranks is None and self._listeners:
                self.set_addresses(
                    RankAddresses(tuple(self.addresses[rank] for rank in everyone), secrets.token_hex(16))
                )
        except OSError as error:
            self.close()
            raise MachineError(
                f"shared memory and sockets for a group cannot be made: {error.strerror} (ulimit -n): use fewer groups"
            ) from error
        except BaseException:
            self.close()
            raise

    def __getitem__(self, rank: int) -> Rendezvous:
        """The rendezvous of a rank."""
        listener = self._listeners.get(rank)
        at = listener.fileno() if listener else None
        return Rendezvous(segment=self._segments.get(rank), store=self._store, listener=at, addresses=self._addresses)

    @property
    def addresses(self) -> dict[int, tuple[str, int]]:
        """Where ranks of this host listen, by rank; empty if they meet in something else."""
        return {rank: listener.getsockname() for rank, listener in self._listeners.items()}

    def set_addresses(self, ranks: RankAddresses) -> None:
        """Give the ranks of this host the addresses of all."""
        self._addresses = ranks.to_descriptor()

    def close(self) -> None:
        """Close the descriptors; processes that have inherited them keep theirs."""
        for segment in set(self._segments.values()):
            os.close(segment)
        for listener in self._listeners.values():
            listener.close()
        for descriptor in (self._store, self._addresses):
            if descriptor is not None:
                os.close(descriptor)
        self._segments, self._listeners, self._store, self._addresses = {}, {}, None, None

    def _make(self, method: ReductionMethod | None, mapping: MappingList, slot_bytes: int, own: Sequence[int]) -> None:
        needs = NEEDS[method.rendezvous_by] if method else LINK_ALONE
        for ranks in _who_share(needs, mapping, own):
            made = create_table(len(ranks)) if "store" in needs else create_segment(len(ranks), slot_bytes)
            self._segments |= dict.fromkeys(ranks, made)
        if "store" in needs:
            self._store = create_empty("gmi-drl-store")
        if "listener" in needs:
            for rank in own:
                self._listeners[rank] = listen(self._host)


def shared_bytes(method: ReductionMethod, mapping: MappingList, slot_bytes: int, own: Collection[int]) -> int:
    """Bytes of the segments that a host makes for its own ranks of a group. Tables are small and do not count."""
    needs = NEEDS[method.rendezvous_by]
    if "store" in needs:
        return 0
    return sum(segment_bytes(len(ranks), slot_bytes) for ranks in _who_share(needs, mapping, own))


def _who_share(needs: Sequence[str], mapping: MappingList, own: Collection[int]) -> Iterator[Sequence[int]]:
    """The ranks of each segment of a host: those of a device if devices have links, else all."""
    if "segment" in needs:
        for ranks in mapping if "listener" in needs else [sorted(own)]:
            if set(ranks) & set(own):  # a device is of one host
                yield ranks
