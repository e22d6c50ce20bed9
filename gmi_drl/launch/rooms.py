"""Memory that GMIs of a host need, and the check that the host has it before any of them starts."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain

from gmi_drl.errors import MachineError
from gmi_drl.hardware.host_memory import SPARE_BYTES
from gmi_drl.units import human_bytes


@dataclass(frozen=True)
class Room:
    """Memory that is needed.

    Args:
        what: What for, with the numbers that decide it.
        nbytes: How much, at least.
        remedy: What a user can do to need less.
    """

    what: str
    nbytes: int
    remedy: str


@dataclass(frozen=True)
class HostRoom:
    """The memory of a host, and what is needed of it.

    Args:
        name: Of the host, in messages: "node a".
        free: Bytes that can be taken.
        has: That in words.
        rooms: What is needed.
    """

    name: str
    free: int
    has: str
    rooms: tuple[Room, ...]

    @property
    def needed(self) -> int:
        """Bytes of all rooms together."""
        return sum(room.nbytes for room in self.rooms)

    @property
    def is_short(self) -> bool:
        """Whether there is too little memory."""
        return bool(self.rooms) and self.needed > self.free

    @property
    def told(self) -> str:
        """What is needed, the most first, and what there is."""
        parts = ", ".join(f"{human_bytes(room.nbytes)} for {room.what}" for room in _most_first(self.rooms))
        return f"{self.name} needs {human_bytes(self.needed)} of memory, and {self.has}: {parts}"


def free_now(name: str, available: int, rooms: Iterable[Room]) -> HostRoom:
    """A host with so many bytes available at this moment, of which some are left to others."""
    has = f"{human_bytes(available)} are free, of which {human_bytes(SPARE_BYTES)} are left alone"
    return HostRoom(name, available - SPARE_BYTES, has, tuple(rooms))


def shortage(hosts: Sequence[HostRoom]) -> str | None:
    """Why hosts have too little memory, all of them, with a remedy for all that they need; None if all have enough."""
    short = [host for host in hosts if host.is_short]
    if not short:
        return None
    rooms = _most_first(chain.from_iterable(host.rooms for host in short))
    remedies = ", or ".join(dict.fromkeys(room.remedy for room in rooms))
    return "\n".join(host.told for host in short) + f": {remedies}"


def require_room(hosts: Sequence[HostRoom]) -> None:
    """Refuse to start GMIs for which hosts have too little memory.

    Raises:
        MachineError: with all of these hosts.
    """
    if why := shortage(hosts):
        raise MachineError(f"nothing was started: {why}")


def _most_first(rooms: Iterable[Room]) -> list[Room]:
    return sorted(rooms, key=lambda room: -room.nbytes)
