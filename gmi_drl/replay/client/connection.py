"""A connection of a client to a replay server: requests go out, answers come back, every wait has a deadline."""

import json
import os
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass
from select import POLLIN, POLLOUT, poll
from typing import Any, Literal, NoReturn

from gmi_drl.comm.links.framing import FramedConnection, FrameError
from gmi_drl.comm.links.token_listener import greeting
from gmi_drl.errors import GmiError, MachineError, UsageError, did_you_mean
from gmi_drl.replay.client.shared import SharedMemory, is_possible
from gmi_drl.replay.fields import Signature
from gmi_drl.replay.limiters import ReplayTimeoutError
from gmi_drl.replay.words import (
    ERROR,
    NO_TOKEN,
    REPLY_BYTES,
    VERSION,
    WELCOME,
    WordError,
    check_byte_order,
    from_json,
    this_host,
)

CONNECT_S = 10.0
"""Seconds for a server to welcome a client."""

Shared = bool | Literal["auto"]

ANSWER_S = 30.0
"""Seconds that an answer may take beyond what the request itself waits for."""

_KNOWN = {error.__name__: error for error in (UsageError, MachineError, WordError)}


class ServerLostError(GmiError):
    """A replay server has ended, or closed the connection. What it has not acknowledged may be in or not."""


@dataclass(frozen=True)
class RemoteStorage:
    """How the steps of a server lie.

    Args:
        number: In the server.
        signature: Of a step.
        steps: That there is room for.
        longest: Steps of the longest item.
        block_steps: Steps of a block.
        is_shared: Whether clients of its host may map it.
    """

    number: int
    signature: Signature
    steps: int
    longest: int
    block_steps: int
    is_shared: bool


Handle = Callable[[int, bytes], None]


class ServerConnection:
    """A connection to a server. One thread at a time may use it.

    Args:
        address: `host:port`.
        token: Of the server; None if it has none.
        timeout_s: Seconds to connect.
        shared: Whether to map the server's memory: True, False, or "auto" for where that is possible.
        writes: Whether the mapped memory is written, too.

    Attributes:
        address: As given.
        memory: The server's, where it is mapped.
        framed: The frames.
        tables: Number and storage of each table, by name.

    Raises:
        UsageError: if the address is no address, or the server speaks another version.
        ServerLostError: if nobody listens there, or the token is wrong.
        ReplayTimeoutError: if nobody answers in time.
    """

    def __init__(
        self,
        address: str,
        token: str | None = None,
        timeout_s: float = CONNECT_S,
        shared: Shared = "auto",
        *,
        writes: bool = True,
    ) -> None:
        check_byte_order()
        self.address, self._token, self._pid = address, token, os.getpid()
        self.memory: SharedMemory | None = None
        self._writes = writes
        self._requests, self._is_welcome = 0, False
        self._poll, self._watched = poll(), 0
        deadline = time.monotonic() + timeout_s
        self._greet(_dial(address, timeout_s), deadline)
        if shared and is_possible():
            self._share(deadline)
        if shared is True and self.memory is None:
            self.close()
            text = "its tables have no placement `shared`, or it is of another host, user or kind of processor"
            raise MachineError(f"the memory of the replay server at {address} cannot be shared: {text}")

    def _greet(self, dialled: socket.socket, deadline: float) -> None:
        self.tables: dict[str, tuple[int, RemoteStorage]] = {}
        try:
            self._say_hello(dialled)
            self.framed = FramedConnection(dialled, 0, REPLY_BYTES)
        except OSError as error:
            dialled.close()
            self._lost(error.strerror or str(error))
        try:
            self.wait(lambda: bool(self.tables), self._welcome, deadline, "a greeting")
        except ServerLostError:
            self.close()
            self._lost("it closed the connection at the greeting: is the token right?")
        except BaseException:
            self.close()
            raise

    def _say_hello(self, dialled: socket.socket) -> None:
        hello = json.dumps({"version": VERSION, "pid": os.getpid(), "host": this_host()}).encode()
        dialled.sendall(greeting(self._token or NO_TOKEN, hello))

    def _share(self, deadline: float) -> None:
        """Go on over a socket of this host that hands out the server's memory, if there is one."""
        shared = {storage.number: storage for _, storage in self.tables.values() if storage.is_shared}
        if self._shared_name is None or not shared:
            return
        dialled = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        dialled.settimeout(max(0.1, deadline - time.monotonic()))
        try:
            dialled.connect(f"\0{self._shared_name}")
            self._say_hello(dialled)
            memory = SharedMemory(dialled, [shared[number] for number in sorted(shared)], writable=self._writes)
        except OSError:  # another host or user
            dialled.close()
            return
        self._poll.unregister(self.framed.fileno())
        self._watched = 0
        self.framed.close()
        self.memory = memory
        self.framed = FramedConnection(dialled, 0, REPLY_BYTES)
        self.wait(lambda: self._is_welcome, self._welcome_again, deadline, "a greeting")

    def table(self, name: str) -> tuple[int, RemoteStorage]:
        """The number and storage of a table.

        Raises:
            UsageError: if there is none of this name.
        """
        if name not in self.tables:
            raise UsageError(f"{self.address} has no table {name!r}{did_you_mean(name, self.tables)}")
        return self.tables[name]

    def next_request(self) -> int:
        """A number for a request, not used before."""
        self._requests += 1
        return self._requests

    @property
    def is_own(self) -> bool:
        """Whether this process made it. After a fork the child would read the answers of its parent."""
        return os.getpid() == self._pid

    def check_own(self) -> None:
        """Raise unless it is.

        Raises:
            UsageError: if another process made it.
        """
        if not self.is_own:
            text = f"process {os.getpid()} has a writer or sampler of process {self._pid}, which forked it"
            raise UsageError(f"{text}: make one after the fork")

    @property
    def is_idle(self) -> bool:
        """Whether it is open, and nothing has come that nobody asked for: the end of the server would be that."""
        self._register(POLLIN)
        return self.framed.is_open and not self._poll.poll(0)

    def wait(self, is_done: Callable[[], bool], handle: Handle, deadline: float, what: str) -> None:
        """Send and receive until something is done.

        Args:
            is_done: Whether it is.
            handle: Gets each message.
            deadline: By `time.monotonic`.
            what: For messages.

        Raises:
            ServerLostError: if the server ended.
            ReplayTimeoutError: if it has not answered in time.
        """
        while not is_done():
            if not self.framed.is_open:
                self._lost("it ended or closed the connection")
            left = deadline - time.monotonic()
            if left <= 0:
                raise ReplayTimeoutError(f"the replay server at {self.address} has not answered {what} in time")
            self._register(POLLIN | POLLOUT if self.framed.is_sending else POLLIN)
            for _, events in self._poll.poll(min(left, 60.0) * 1000):
                if events & POLLOUT:
                    self.framed.flush()
                if events & ~POLLOUT:
                    self.read(handle)

    def read(self, handle: Handle) -> None:
        """Handle what has arrived, without waiting."""
        try:
            for kind, message in self.framed.read():
                handle(kind, message)
        except FrameError as error:
            self.close()
            self._lost(f"it sent no answer of a replay server: {error}")

    def close(self) -> None:
        """Close it. The server frees what it kept for this client."""
        self.framed.close()

    def _register(self, events: int) -> None:
        if self.framed.is_open and events != self._watched:
            self._poll.register(self.framed.fileno(), events)
            self._watched = events

    def _welcome(self, kind: int, message: bytes) -> None:
        _, content = from_json(message)
        if kind == ERROR:
            raise_error(content)
        if kind != WELCOME or content.get("version") != VERSION:
            raise UsageError(f"{self.address} is no replay server of version {VERSION}")
        storages = [
            RemoteStorage(
                number,
                Signature.from_json(one["signature"]),
                *(one[name] for name in ("steps", "longest", "block_steps", "is_shared")),
            )
            for number, one in enumerate(content["storages"])
        ]
        self.tables = {
            table["name"]: (number, storages[table["storage"]]) for number, table in enumerate(content["tables"])
        }
        self._shared_name: str | None = content["shared"]

    def _welcome_again(self, kind: int, message: bytes) -> None:
        self._welcome(kind, message)
        self._is_welcome = True

    def _lost(self, reason: str) -> NoReturn:
        raise ServerLostError(f"the replay server at {self.address}: {reason}") from None


def raise_error(content: Any) -> NoReturn:
    """Raise the error that a server has told."""
    kind, message = content["kind"], content["message"]
    if kind == ReplayTimeoutError.__name__:
        raise ReplayTimeoutError(message, content["done"])
    raise _KNOWN.get(kind, GmiError)(message)


def _dial(address: str, timeout_s: float) -> socket.socket:
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal() or not 0 < int(port) < 65536:
        raise UsageError(f"{address!r} is no address of a replay server: expected HOST:PORT")
    try:
        return socket.create_connection((host.strip("[]"), int(port)), timeout=timeout_s)
    except TimeoutError:
        raise ReplayTimeoutError(f"nobody answers at {address} for {timeout_s:g} s") from None
    except OSError as error:
        text = f"the replay server at {address} cannot be reached: {error.strerror or error}"
        raise ServerLostError(f"{text}: does it run?") from None
