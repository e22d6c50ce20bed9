"""How ranks that share no memory find each other: by sockets that listen before any of them is started.

A launcher makes one for each rank, on that rank's host (`listen`), collects where they listen, and gives each rank its
own, by descriptor, and the same `Meeting`. It closes its own copies once the ranks are started: then nobody answers
for a rank that has ended before it came. The token keeps others out who happen to know the address, not those who can
read along: nothing is encrypted.
"""

import hmac
import json
import os
import socket
import struct
from dataclasses import dataclass, field
from select import POLLIN, poll
from typing import NoReturn, Self

from gmi_drl.comm.links.wire import Wire
from gmi_drl.errors import MachineError, PeerDiedError, PeerSilentError, UsageError
from gmi_drl.membership import Membership
from gmi_drl.memory.waiting import Waiting

_HELLO = struct.Struct("<32sIIQ")  # token, rank, size, pid
_LOOK_MS = 100
_STRANGERS = 64  # connections that may be waiting to say who they are, beside the ranks'


@dataclass(frozen=True)
class Meeting:
    """What all ranks of a group are told.

    Args:
        addresses: Host and port where each listens, in rank order.
        token: 32 characters that only these ranks know; who comes without them is turned away.
    """

    addresses: tuple[tuple[str, int], ...]
    token: str = field(repr=False)

    def written(self) -> int:
        """The descriptor of a file in memory that has it, to be inherited; see `read`."""
        descriptor = os.memfd_create("gmi-drl-meeting", os.MFD_CLOEXEC)
        os.pwrite(descriptor, json.dumps([self.addresses, self.token]).encode(), 0)
        return descriptor

    @classmethod
    def read(cls, descriptor: int) -> Self:
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
    """A socket for one rank of one group, at a port that the kernel chooses: where, `getsockname()` says."""
    return socket.create_server((host, 0), backlog=1024)


def meet(member: Membership, meeting: Meeting, listener_fd: int) -> dict[int, Wire]:
    """Connect to all other ranks; returns when all are connected to this one.

    Args:
        member: This process.
        meeting: The ranks.
        listener_fd: What `listen` made for this rank; it stays the caller's to close.

    Raises:
        UsageError: If the meeting is not of as many ranks.
        PeerDiedError: If a rank below this one has ended before it came; those above are waited for.
        PeerSilentError: If one has not come within `hang_s`.
        MachineError: If an address cannot be reached.
    """
    if len(meeting.addresses) != member.size or len(meeting.token) != 32:
        count = len(meeting.addresses)
        raise UsageError(f"a group of {member.size} needs as many addresses, not {count}, and a token of 32 characters")
    with socket.socket(fileno=os.dup(listener_fd)) as listener:
        listener.setblocking(False)
        return _Arrivals(member, meeting, listener).all()


class _Arrivals:
    """Every rank dials those below it, waits for those above, and says first who it is."""

    def __init__(self, member: Membership, meeting: Meeting, listener: socket.socket) -> None:
        self._member, self._rank, self._hang_s = member, member.rank, member.hang_s
        self._own = member.name(member.rank)
        self._meeting, self._listener = meeting, listener
        self._wires: dict[int, Wire] = {}
        self._heard: dict[socket.socket, bytearray] = {}  # what each has said so far of who it is
        self._dialled: dict[socket.socket, int] = {}

    def all(self) -> dict[int, Wire]:
        try:
            for peer in range(self._rank):
                self._dial(peer)
            waiting = Waiting()
            while missing := self._missing():
                self._look()
                if waiting.look() > self._hang_s:
                    who = ", ".join(map(self._member.name, missing))
                    text = f"{who} has not come for {self._hang_s:g} s (hang_s) while {self._own} waited"
                    raise PeerSilentError(f"{text}: see its log, or raise hang_s")
        except BaseException:
            for wire in self._wires.values():
                wire.close()
            raise
        finally:
            for stranger in self._heard:
                stranger.close()
        return self._wires

    def _missing(self) -> list[int]:
        return [peer for peer in range(len(self._meeting.addresses)) if peer not in {self._rank, *self._wires}]

    def _dial(self, peer: int) -> None:
        name = self._member.name(peer)
        try:
            connection = socket.create_connection(self._meeting.addresses[peer], timeout=self._hang_s)
        except TimeoutError:
            raise PeerSilentError(f"the host of {name} has not answered for {self._hang_s:g} s (hang_s)") from None
        except ConnectionError as error:
            self._ended(peer, str(error.strerror))
        except OSError as error:
            host, port = self._meeting.addresses[peer]
            raise MachineError(f"{self._own} cannot reach {name} at {host}:{port}: {error}") from error
        self._heard[connection] = bytearray()
        self._dialled[connection] = peer
        try:
            connection.sendall(self._hello())
        except ConnectionError as error:
            self._ended(peer, str(error.strerror))
        connection.setblocking(False)

    def _hello(self) -> bytes:
        return _HELLO.pack(self._meeting.token.encode(), self._rank, len(self._meeting.addresses), os.getpid())

    def _look(self) -> None:
        looking = poll()
        looking.register(self._listener, POLLIN)
        by_fd = {connection.fileno(): connection for connection in self._heard}
        for fd in by_fd:
            looking.register(fd, POLLIN)
        for fd, _ in looking.poll(_LOOK_MS):
            if fd == self._listener.fileno():
                self._accept()
            else:
                self._hear(by_fd[fd])

    def _accept(self) -> None:
        try:
            connection, _ = self._listener.accept()
        except OSError:
            return  # it has gone again
        if len(self._heard) - len(self._dialled) >= _STRANGERS + len(self._meeting.addresses):
            connection.close()
            return
        connection.setblocking(False)
        self._heard[connection] = bytearray()

    def _hear(self, connection: socket.socket) -> None:
        heard = self._heard[connection]
        try:
            said = connection.recv(_HELLO.size - len(heard))
        except OSError:
            said = b""
        heard += said
        if not said:
            self._turn_away(connection)
        elif len(heard) == _HELLO.size:
            self._know(connection, heard)

    def _know(self, connection: socket.socket, heard: bytearray) -> None:
        token, peer, size, pid = _HELLO.unpack(heard)
        dialled = self._dialled.get(connection)
        expected = peer == dialled if dialled is not None else self._rank < peer < len(self._meeting.addresses)
        is_ours = hmac.compare_digest(token, self._meeting.token.encode()) and size == len(self._meeting.addresses)
        if not (is_ours and expected) or peer in self._wires:
            self._turn_away(connection)
            return
        try:
            if dialled is None:
                connection.send(self._hello())  # the first that is sent, so there is room for it
        except OSError:  # it has gone again
            self._turn_away(connection)
            return
        del self._heard[connection]
        self._wires[peer] = Wire(connection, pid)

    def _turn_away(self, connection: socket.socket) -> None:
        del self._heard[connection]
        connection.close()
        if connection in self._dialled:
            self._ended(self._dialled[connection], "it closed the connection")

    def _ended(self, peer: int, reason: str) -> NoReturn:
        name = self._member.name(peer)
        raise PeerDiedError(f"{name} ended before {self._own} met it: {reason}; its log says why")
