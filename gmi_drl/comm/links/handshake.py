"""How ranks that share no memory find each other: by sockets that listen before any of them is started.

A launcher makes one for each rank, on that rank's host (`listen`), collects where they listen, and gives each rank
its own, by descriptor, and the same `RankAddresses`. It closes its own copies once the ranks are started: then nobody
answers for a rank that has ended before it came. Others are kept out by a token (`door.py`).
"""

import errno
import json
import os
import socket
import struct
from contextlib import closing
from dataclasses import dataclass, field
from select import POLLIN, poll
from typing import NoReturn, Self

from gmi_drl.comm.links.framing import FramedConnection
from gmi_drl.comm.links.token_listener import Client, Greeting, TokenListener, greeting
from gmi_drl.comm.membership import Membership
from gmi_drl.comm.memory.wait_clock import WaitClock
from gmi_drl.errors import MachineError, PeerDiedError, PeerSilentError, UsageError

_WHO = struct.Struct("<IIQ")  # rank, size, pid: what is said behind the token
_LOOK_MS = 100


@dataclass(frozen=True)
class RankAddresses:
    """What all ranks of a group are told.

    Args:
        addresses: Host and port where each listens, in rank order.
        token: 32 letters that only these ranks know.
    """

    addresses: tuple[tuple[str, int], ...]
    token: str = field(repr=False)

    def to_descriptor(self) -> int:
        """The descriptor of a file in memory that has it, to be inherited; see `read`."""
        descriptor = os.memfd_create("gmi-drl-addresses", os.MFD_CLOEXEC)
        os.pwrite(descriptor, json.dumps([self.addresses, self.token]).encode(), 0)
        return descriptor

    @classmethod
    def from_descriptor(cls, descriptor: int) -> Self:
        """What `written` has written. The descriptor stays the caller's to close.

        Raises:
            UsageError: If the descriptor is of something else.
        """
        try:
            addresses, token = json.loads(os.pread(descriptor, os.fstat(descriptor).st_size, 0))
            return cls(tuple((host, port) for host, port in addresses), token)
        except (OSError, ValueError, TypeError) as error:
            raise UsageError(f"descriptor {descriptor} is no meeting: {error} (see pass_fds)") from error


def listen(host: str = "127.0.0.1") -> socket.socket:
    """A socket for one rank of one group, at a port that the kernel chooses: where, `getsockname()` says.

    Raises:
        MachineError: If this machine has no such address.
        OSError: If there are too few descriptors.
    """
    try:
        return socket.create_server((host, 0), backlog=1024)
    except OSError as error:
        if error.errno != errno.EADDRNOTAVAIL:
            raise
        remedy = "is its interface up (`ip address`)?"
        raise MachineError(f"nobody can listen at {host}: {os.strerror(error.errno)}: {remedy}") from error


def connect_ranks(member: Membership, ranks: RankAddresses, listener_fd: int) -> dict[int, FramedConnection]:
    """Connect to all other ranks; returns when all are connected to this one.

    Args:
        member: This process.
        ranks: The ranks.
        listener_fd: What `listen` made for this rank; it stays the caller's to close. Nobody can connect to it after.

    Raises:
        UsageError: If the meeting is not of as many ranks.
        PeerDiedError: If a rank below this one has ended before it came; those above are waited for.
        PeerSilentError: If one has not come within `hang_s`.
        MachineError: If an address cannot be reached, or there are too few descriptors.
    """
    if len(ranks.addresses) != member.size:
        raise UsageError(f"a group of {member.size} needs as many addresses, not {len(ranks.addresses)}")
    with (
        socket.socket(fileno=os.dup(listener_fd)) as listener,
        closing(TokenListener(listener, ranks.token, _WHO.size, member.size)) as door,
    ):
        return _Arrivals(member, ranks, door).all()


class _Arrivals:
    """Every rank dials those below it, waits for those above, and says first who it is."""

    def __init__(self, member: Membership, ranks: RankAddresses, door: TokenListener) -> None:
        self._member, self._rank, self._hang_s = member, member.rank, member.hang_s
        self._own = member.name(member.rank)
        self._ranks, self._door = ranks, door
        self._wires: dict[int, FramedConnection] = {}
        self._dialled: dict[int, Greeting] = {}  # those that have not answered, by rank

    def all(self) -> dict[int, FramedConnection]:
        try:
            for peer in range(self._rank):
                self._dial(peer)
            waiting = WaitClock()
            while missing := self._missing():
                self._look()
                if waiting.look() > self._hang_s:
                    who = ", ".join(map(self._member.name, missing))
                    text = f"{who} has not come for {self._hang_s:g} s (hang_s) while {self._own} waited"
                    raise PeerSilentError(f"{text}: see its log, or raise hang_s")
        except BaseException:
            for wire in self._wires.values():
                wire.close()
            for answer in self._dialled.values():
                answer.connection.close()
            raise
        return self._wires

    def _missing(self) -> list[int]:
        return [peer for peer in range(self._member.size) if peer not in {self._rank, *self._wires}]

    def _dial(self, peer: int) -> None:
        name = self._member.name(peer)
        try:
            connection = socket.create_connection(self._ranks.addresses[peer], timeout=self._hang_s)
        except TimeoutError:
            raise PeerSilentError(f"the host of {name} has not answered for {self._hang_s:g} s (hang_s)") from None
        except ConnectionError as error:
            self._ended(peer, error)
        except OSError as error:
            host, port = self._ranks.addresses[peer]
            raise MachineError(f"{self._own} cannot reach {name} at {host}:{port}: {error}") from error
        self._dialled[peer] = Greeting(connection, self._ranks.token, _WHO.size)
        self._greet(connection, peer)

    def _greet(self, connection: socket.socket, peer: int) -> None:
        """Say who this is. It is the first that is sent, so there is room for it."""
        try:
            connection.sendall(greeting(self._ranks.token, _WHO.pack(self._rank, self._member.size, os.getpid())))
        except ConnectionError as error:
            self._ended(peer, error)

    def _look(self) -> None:
        looking = poll()
        looking.register(self._door, POLLIN)
        by_fd = {answer.connection.fileno(): peer for peer, answer in self._dialled.items()}
        for fd in by_fd:
            looking.register(fd, POLLIN)
        for fd, _ in looking.poll(_LOOK_MS):
            if fd in by_fd:
                self._hear(by_fd[fd])
        for guest in self._door.look():
            self._welcome(guest)

    def _welcome(self, guest: Client) -> None:
        """One of the ranks above, unless it is of another group, or has come before."""
        who = _who(guest.said, self._member.size)
        if who is None or who[0] <= self._rank or who[0] in self._wires:
            guest.connection.close()
            return
        peer, pid = who
        self._wires[peer] = FramedConnection(guest.connection, pid)
        self._greet(guest.connection, peer)

    def _hear(self, peer: int) -> None:
        """What a rank answers that was dialled."""
        answer = self._dialled[peer]
        try:
            said = answer.read()
        except OSError as error:
            self._ended(peer, error)
        if said is None:
            return
        who = _who(said, self._member.size)
        if who is None or who[0] != peer:
            self._ended(peer, ConnectionError("another process answers there"))
        del self._dialled[peer]
        self._wires[peer] = FramedConnection(answer.connection, who[1])

    def _ended(self, peer: int, error: OSError) -> NoReturn:
        name, reason = self._member.name(peer), error.strerror or str(error)
        raise PeerDiedError(f"{name} ended before {self._own} met it: {reason}; its log says why") from error


def _who(said: bytes, size: int) -> tuple[int, int] | None:
    """The rank that has said this, and its process; None if it is none of a group of this size."""
    if len(said) != _WHO.size:
        return None
    rank, of, pid = _WHO.unpack(said)
    return (rank, pid) if of == size and rank < size else None
