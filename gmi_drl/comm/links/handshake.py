"""How ranks that share no memory connect to each other: by listening sockets that are made before any rank starts.

A launcher makes one for each rank, on that rank's host (`listen`), and collects the addresses. Each rank inherits its
own socket and the same `RankAddresses`. The launcher closes its copies once the ranks are started: then nobody answers
for a rank that ended before it connected. A token keeps out others (`token_listener.py`).
"""

import errno
import json
import os
import socket
import struct
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from select import POLLIN, poll
from typing import NamedTuple, NoReturn, Self

from gmi_drl.comm.links.framing import FramedConnection
from gmi_drl.comm.links.token_listener import Client, Greeting, TokenListener, greeting
from gmi_drl.comm.membership import Membership
from gmi_drl.comm.memory.wait_clock import WaitClock
from gmi_drl.errors import MachineError, PeerDiedError, PeerSilentError, UsageError

_IDENTITY = struct.Struct("<IIQI")  # rank, size, pid, predecessors: the bytes behind the token
_LOOK_MS = 100
_NAP_MS = 500  # below a second, beyond which `WaitClock` counts a pause as a standstill


class _Identity(NamedTuple):
    """Who has connected: its rank, its process id, and how many processes were this rank before."""

    rank: int
    pid: int
    predecessors: int


@dataclass(frozen=True)
class RankAddresses:
    """The addresses and the token of a group, the same for all its ranks.

    Args:
        addresses: Host and port where each rank listens, in rank order.
        token: 32 letters that only these ranks know.
    """

    addresses: tuple[tuple[str, int], ...]
    token: str = field(repr=False)

    def to_descriptor(self) -> int:
        """Write them to a file in memory, to be inherited. Returns its descriptor; see `from_descriptor`."""
        descriptor = os.memfd_create("gmi-drl-addresses", os.MFD_CLOEXEC)
        os.pwrite(descriptor, json.dumps([self.addresses, self.token]).encode(), 0)
        return descriptor

    @classmethod
    def from_descriptor(cls, descriptor: int) -> Self:
        """Read what `to_descriptor` has written. The caller closes the descriptor.

        Raises:
            UsageError: If the descriptor is of something else.
        """
        try:
            addresses, token = json.loads(os.pread(descriptor, os.fstat(descriptor).st_size, 0))
            return cls(tuple((host, port) for host, port in addresses), token)
        except (OSError, ValueError, TypeError) as error:
            raise UsageError(f"descriptor {descriptor} has no rank addresses: {error} (see pass_fds)") from error


def listen(host: str = "127.0.0.1") -> socket.socket:
    """A listening socket for one rank of one group, at a port that the kernel chooses (`getsockname()`).

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
        raise MachineError(f"cannot listen at {host}: {os.strerror(error.errno)}: {remedy}") from error


def connect_ranks(
    member: Membership, ranks: RankAddresses, listener_fd: int, message_bytes: int | None = None
) -> dict[int, FramedConnection]:
    """Connect to all other ranks. Returns the connections by rank, when all ranks are connected to this one.

    Args:
        member: This process.
        ranks: The addresses of all ranks.
        listener_fd: What `listen` made for this rank; the caller closes it. Nobody can connect to it afterwards.
        message_bytes: See `FramedConnection`.

    Raises:
        UsageError: If there is not one address for each rank.
        PeerDiedError: If a rank below this one has ended before it connected; those above are waited for.
        PeerSilentError: If one has not connected within `hang_s`.
        MachineError: If an address cannot be reached, or there are too few descriptors.
    """
    if len(ranks.addresses) != member.size:
        raise UsageError(f"a group of {member.size} ranks needs as many addresses, not {len(ranks.addresses)}")
    with (
        socket.socket(fileno=os.dup(listener_fd)) as listener,
        closing(TokenListener(listener, ranks.token, _IDENTITY.size, member.size)) as token_listener,
    ):
        return _Handshake(member, ranks, token_listener, message_bytes).all()


class PeerListener:
    """Accepts the ranks above this one, as often as they connect: one that has died may be started again.

    Args:
        member: This process.
        ranks: The addresses of all ranks.
        listener_fd: What `listen` made for this rank; the caller closes it.
        message_bytes: See `FramedConnection`.
    """

    def __init__(self, member: Membership, ranks: RankAddresses, listener_fd: int, message_bytes: int | None) -> None:
        self._member, self._token, self._message_bytes = member, ranks.token, message_bytes
        self._socket = socket.socket(fileno=os.dup(listener_fd))
        self._listener = TokenListener(self._socket, ranks.token, _IDENTITY.size, member.size)

    def fileno(self) -> int:
        """A descriptor that is readable when `accept` has something to do."""
        return self._listener.fileno()

    def accept(self) -> list[FramedConnection]:
        """The connections that are complete now. A rank that has ended meanwhile is a line in the log.

        To be called once a second, also if nobody comes: those who say nothing are turned away.

        Raises:
            MachineError: If there are too few descriptors.
        """
        found = list[FramedConnection]()
        for client in self._listener.poll():
            if (who := _rank_above(client, self._member)) is None:
                continue
            try:
                _send_identity(client.connection, self._token, self._member)
            except OSError as error:
                client.connection.close()
                print(_ended_text(self._member, who.rank, error), file=sys.stderr, flush=True)
            else:
                found.append(FramedConnection(client.connection, who.pid, self._message_bytes, who.predecessors))
        return found

    def in_turn(self) -> Iterator[FramedConnection]:
        """Wait for connections of the one rank above this one, each time when the one before is done with.

        Raises:
            PeerSilentError: If none has come within `hang_s`. Its successors have no deadline.
            MachineError: If there are too few descriptors.
        """
        polling, waiting, has_come = poll(), WaitClock(), False
        polling.register(self, POLLIN)
        while True:
            polling.poll(_NAP_MS)
            for connection in self.accept():
                has_come = True
                yield connection
            if not has_come and waiting.look() > self._member.hang_s:
                raise _silent(self._member, [self._member.rank + 1])

    def close(self) -> None:
        """Accept nobody any more."""
        self._listener.close()
        self._socket.close()


class _Handshake:
    """Connects to the ranks below this one, accepts those above, and exchanges identities."""

    def __init__(
        self, member: Membership, ranks: RankAddresses, token_listener: TokenListener, message_bytes: int | None
    ) -> None:
        self._member, self._rank, self._hang_s = member, member.rank, member.hang_s
        self._own = member.name(member.rank)
        self._ranks, self._listener, self._message_bytes = ranks, token_listener, message_bytes
        self._connections: dict[int, FramedConnection] = {}
        self._dialled: dict[int, Greeting] = {}  # connected, but without a reply yet; by rank

    def all(self) -> dict[int, FramedConnection]:
        try:
            for peer in range(self._rank):
                self._dial(peer)
            waiting = WaitClock()
            while missing := self._missing():
                self._poll()
                if waiting.look() > self._hang_s:
                    raise _silent(self._member, missing)
        except BaseException:
            for connection in self._connections.values():
                connection.close()
            for reply in self._dialled.values():
                reply.connection.close()
            raise
        return self._connections

    def _missing(self) -> list[int]:
        return [peer for peer in range(self._member.size) if peer not in {self._rank, *self._connections}]

    def _dial(self, peer: int) -> None:
        name = self._member.name(peer)
        try:
            connection = socket.create_connection(self._ranks.addresses[peer], timeout=self._hang_s)
        except TimeoutError:
            raise PeerSilentError(f"the host of {name} has not answered for {self._hang_s:g} s (hang_s)") from None
        except ConnectionError as error:
            self._raise_ended(peer, error)
        except OSError as error:
            host, port = self._ranks.addresses[peer]
            raise MachineError(f"{self._own} cannot reach {name} at {host}:{port}: {error}") from error
        self._dialled[peer] = Greeting(connection, self._ranks.token, _IDENTITY.size)
        self._send_greeting(connection, peer)

    def _send_greeting(self, connection: socket.socket, peer: int) -> None:
        try:
            _send_identity(connection, self._ranks.token, self._member)
        except ConnectionError as error:
            self._raise_ended(peer, error)

    def _poll(self) -> None:
        polling = poll()
        if self._missing()[-1] > self._rank:  # else nobody is due, and a predecessor may have closed the listener
            polling.register(self._listener, POLLIN)
        by_fd = {reply.connection.fileno(): peer for peer, reply in self._dialled.items()}
        for fd in by_fd:
            polling.register(fd, POLLIN)
        for fd, _ in polling.poll(_LOOK_MS):
            if fd in by_fd:
                self._read_reply(by_fd[fd])
        for client in self._listener.poll():
            self._accept(client)

    def _accept(self, client: Client) -> None:
        """Accept a rank above this one. Reject one of another group, or one that has connected before."""
        if (who := _rank_above(client, self._member)) is None:
            return
        peer = who.rank
        if peer in self._connections:
            client.connection.close()
            return
        self._connections[peer] = FramedConnection(client.connection, who.pid, self._message_bytes, who.predecessors)
        self._send_greeting(client.connection, peer)

    def _read_reply(self, peer: int) -> None:
        """Read the identity of a rank to which this one has connected."""
        reply = self._dialled[peer]
        try:
            payload = reply.read()
        except OSError as error:
            self._raise_ended(peer, error)
        if payload is None:
            return
        who = _identity(payload, self._member.size)
        if who is None or who.rank != peer:
            self._raise_ended(peer, ConnectionError("another process listens there"))
        del self._dialled[peer]
        self._connections[peer] = FramedConnection(reply.connection, who.pid, self._message_bytes, who.predecessors)

    def _raise_ended(self, peer: int, error: OSError) -> NoReturn:
        raise PeerDiedError(_ended_text(self._member, peer, error)) from error


def _send_identity(connection: socket.socket, token: str, member: Membership) -> None:
    """Send a rank's identity. It is the first data on the connection, so it fits into the socket's buffer."""
    connection.sendall(greeting(token, _IDENTITY.pack(member.rank, member.size, os.getpid(), member.predecessors)))


def _silent(member: Membership, missing: Sequence[int]) -> PeerSilentError:
    who, own = ", ".join(map(member.name, missing)), member.name(member.rank)
    text = f"{who} has not connected for {member.hang_s:g} s (hang_s) while {own} waited"
    return PeerSilentError(f"{text}: see its log, or raise hang_s")


def _ended_text(member: Membership, peer: int, error: OSError) -> str:
    name, own, reason = member.name(peer), member.name(member.rank), error.strerror or str(error)
    return f"{name} ended before {own} connected to it: {reason}; its log says why"


def _rank_above(client: Client, member: Membership) -> _Identity | None:
    """Who a client is; None, and its connection is closed, if it is no rank above this one."""
    who = _identity(client.payload, member.size)
    if who is None or who.rank <= member.rank:
        client.connection.close()
        return None
    return who


def _identity(payload: bytes, size: int) -> _Identity | None:
    """Who has sent a greeting; None if it is not of a group of this size."""
    if len(payload) != _IDENTITY.size:
        return None
    rank, of, pid, predecessors = _IDENTITY.unpack(payload)
    return _Identity(rank, pid, predecessors) if of == size and rank < size else None
