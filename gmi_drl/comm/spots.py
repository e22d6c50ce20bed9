"""Where the ranks of a group meet: made by who starts them, inherited by descriptor."""

import os
import secrets
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from gmi_drl.comm.links.meeting import Meeting, listen
from gmi_drl.errors import MachineError
from gmi_drl.mapping import MappingList
from gmi_drl.memory.segment import create_segment
from gmi_drl.reduction_method import ReductionMethod


@dataclass(frozen=True)
class Spot:
    """What one rank has of it. Which of these, `ReductionMethod.meets_in` says; all stay the caller's to close.

    Args:
        path: On this host, the same for all ranks and unused before.
        segment: Descriptor of shared memory (`memory.segment.create_segment`).
        listener: Descriptor of a socket at which this rank listens (`meeting.listen`).
        meeting: Descriptor of what all are told of each other (`Meeting.written`).
    """

    path: Path | None = None
    segment: int | None = None
    listener: int | None = None
    meeting: int | None = None

    @property
    def descriptors(self) -> dict[str, int]:
        """Those that there are, by their names here."""
        return {name: value for name, value in vars(self).items() if isinstance(value, int)}

    def to_order(self) -> dict[str, str | int]:
        """As JSON."""
        return self.descriptors | ({"path": str(self.path)} if self.path else {})

    @classmethod
    def from_order(cls, order: Mapping[str, Any]) -> Self:
        """What `to_order` has written, in the process that has inherited it."""
        path = order.get("path")
        return cls(**dict(order) | {"path": Path(path) if path else None})

    def lacks(self, method: ReductionMethod) -> list[str]:
        """What a method needs of it that is not there."""
        return [name for name in NEEDS[method.meets_in] if getattr(self, name) is None]


NEEDS: dict[str, tuple[str, ...]] = {
    "nothing": (),
    "path": ("path",),
    "segment": ("segment",),
    "links": ("segment", "listener", "meeting"),
}
"""By `ReductionMethod.meets_in`. Ranks that meet by links share a segment with those of their device alone."""


class Spots:
    """The spots of all ranks of a group, on this host.

    To be closed when all ranks are started: from then on nobody answers for a rank that has ended before it came.

    Args:
        method: How they reduce.
        mapping: The ranks of each device.
        slot_bytes: Shared memory for each rank; longer vectors are reduced in pieces.
        path: On this host, unused before.

    Raises:
        MachineError: If there is no room for the shared memory, or there are too many descriptors.
    """

    def __init__(
        self, method: ReductionMethod, mapping: MappingList, slot_bytes: int, path: Path | None = None
    ) -> None:
        self._path = path
        self._segments: dict[int, int] = {}  # by rank
        self._listeners: dict[int, socket.socket] = {}
        self._meeting: int | None = None
        try:
            self._make(method, mapping, slot_bytes)
        except OSError as error:
            self.close()
            raise MachineError(
                f"a group has no place to meet: {error.strerror} (ulimit -n): use fewer groups"
            ) from error
        except BaseException:
            self.close()
            raise

    def __getitem__(self, rank: int) -> Spot:
        """The one of a rank."""
        listener = self._listeners.get(rank)
        return Spot(self._path, self._segments.get(rank), listener.fileno() if listener else None, self._meeting)

    def close(self) -> None:
        """Close the descriptors; who has inherited them keeps theirs."""
        for segment in set(self._segments.values()):
            os.close(segment)
        for listener in self._listeners.values():
            listener.close()
        if self._meeting is not None:
            os.close(self._meeting)
        self._segments, self._listeners, self._meeting = {}, {}, None

    def _make(self, method: ReductionMethod, mapping: MappingList, slot_bytes: int) -> None:
        needs = NEEDS[method.meets_in]
        everyone = sorted(rank for ranks in mapping for rank in ranks)
        if "segment" in needs:
            for ranks in mapping if method.meets_in == "links" else [everyone]:
                self._segments |= dict.fromkeys(ranks, create_segment(len(ranks), slot_bytes))
        if "listener" in needs:
            for rank in everyone:
                self._listeners[rank] = listen()
            addresses = tuple(self._listeners[rank].getsockname() for rank in everyone)
            self._meeting = Meeting(addresses, secrets.token_hex(16)).written()
