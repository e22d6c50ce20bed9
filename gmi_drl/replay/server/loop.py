"""The one thread of a server: accepts clients, reads their messages in turns, and serves those that wait."""

import json
import logging
import os
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from select import EPOLLHUP, EPOLLIN, EPOLLOUT, EPOLLRDHUP, epoll
from typing import Any

from gmi_drl.comm.links.framing import FramedConnection, FrameError
from gmi_drl.comm.links.token_listener import Client, TokenListener
from gmi_drl.errors import MachineError, UsageError
from gmi_drl.replay.server.attach import LEASE_S, listen_for_shared, share
from gmi_drl.replay.server.connection import Connection
from gmi_drl.replay.server.handling import Handler
from gmi_drl.replay.server.process_ends import ProcessEnds
from gmi_drl.replay.words import MESSAGE_BYTES, VERSION, WELCOME, WordError, this_host, to_json

LOG = logging.getLogger("gmi_drl.replay")

HELLO_BYTES = 1024
"""The most bytes of a greeting."""

_TURN_BYTES = 2**20
_TURN_MESSAGES = 16
_LOOK_S = 0.05
_CLIENTS = 256  # that may be greeting at once


class Loop:
    """Serves clients until it is stopped. A ready client gets some messages or 1 MiB, then the next one.

    Args:
        listener: A listening socket.
        token: What clients greet with.
        handler: Knows the tables.
        hang_s: Seconds after which a client is cut off that does not read what it asked for.

    Attributes:
        connections: By descriptor.
        received: Bytes of rows that clients have sent, which have gone.
        sent: Bytes of rows that they got.
    """

    def __init__(self, listener: socket.socket, token: str, handler: Handler, hang_s: float) -> None:
        self.connections: dict[int, Connection] = {}
        self.received = self.sent = 0
        self._socket, self._handler, self._hang_s = listener, handler, hang_s
        self._shared = listen_for_shared(handler)
        sockets = [listener] if self._shared is None else [listener, self._shared]
        self._listeners = [TokenListener(one, token, HELLO_BYTES, _CLIENTS) for one in sockets]
        self._epoll = epoll()
        for one in self._listeners:
            self._epoll.register(one.fileno(), EPOLLIN)
        self._process_ends = ProcessEnds(self._epoll)
        self._host = this_host()
        self._wake = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._epoll.register(self._wake, EPOLLIN)
        self._calls: deque[Callable[[], None]] = deque()
        self._parked: list[Connection] = []
        self._wanted: dict[int, int] = {}
        self._sending: set[Connection] = set()
        self._numbers = 0
        self._looked = self._warned = 0.0
        self._is_stopped = self._has_ended = False
        self._closing = threading.Lock()

    def call(self, function: Callable[[], None]) -> None:
        """Call a function in the loop's thread. For other threads."""
        self._calls.append(function)
        self._notify()

    def stop(self) -> None:
        """Let `run` return. For other threads."""
        self._is_stopped = True
        self._notify()

    def run(self) -> None:
        """Serve until `stop`, then close everything."""
        try:
            while not self._is_stopped:
                self._turn()
        finally:
            for connection in list(self.connections.values()):
                self._close(connection, None)
            for listener in self._listeners:
                listener.close()
            self._socket.close()
            if self._shared is not None:
                self._shared.close()
            self._epoll.close()
            with self._closing:
                self._has_ended = True
                os.close(self._wake)

    def waiting(self) -> list[Connection]:
        """The clients whose requests wait, the longest waiting first."""
        return list(self._parked)

    def _notify(self) -> None:
        """Let the loop look at what other threads want, unless it has ended."""
        with self._closing:
            if not self._has_ended:
                os.eventfd_write(self._wake, 1)

    def _turn(self) -> None:
        ready = self._epoll.poll(self._wait_s())
        for descriptor, events in ready:
            if descriptor == self._wake:
                self._run_calls()
            elif connection := self.connections.get(descriptor):
                self._serve(connection, events)
            elif gone := self._process_ends.ended(descriptor):
                self._close(gone, None)  # a child of it may keep the connection open
            else:
                self._accept()
        now = time.monotonic()
        is_time = now - self._looked > _LOOK_S
        if self._parked and (ready or is_time):
            self._retry(now)
        if is_time:
            self._looked = now
            self._look(now)

    def _wait_s(self) -> float:
        return _LOOK_S if self._parked or self._sending else 1.0

    def _run_calls(self) -> None:
        with suppress(BlockingIOError):
            os.eventfd_read(self._wake)
        while self._calls:
            self._calls.popleft()()

    def _accept(self) -> None:
        try:
            clients = [client for listener in self._listeners for client in listener.poll()]
        except MachineError as error:
            if time.monotonic() - self._warned > 60:
                self._warned = time.monotonic()
                LOG.warning("%s", error)
            time.sleep(0.01)  # it stays ready; those who are connected go on
            return
        for client in clients:
            descriptor = client.connection.fileno()
            try:
                self._welcome(client)
            except Exception as error:  # a fault of ours must not end the others' tables
                LOG.exception("a client that greets")
                if connection := self.connections.get(descriptor):
                    self._close(connection, f"{type(error).__name__}: {error}")
                else:
                    client.connection.close()

    def _welcome(self, client: Client) -> None:
        """Answer to a greeting. A number that no process of Linux has is none."""
        hello = _hello(client.payload)
        pid = pid if isinstance(pid := hello.get("pid"), int) and 0 < pid < 2**31 else 0
        self._numbers += 1
        with suppress(OSError):
            client.connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        framed = FramedConnection(client.connection, pid, MESSAGE_BYTES)
        connection = Connection(framed, f"process {pid} ({_peer(client)})", self._numbers, self._handler.storages)
        if client.connection.family == socket.AF_UNIX:
            try:
                connection.lease_word = share(client.connection, self._handler.storages)
            except (OSError, MachineError) as error:
                LOG.warning("%s was refused: %s", connection.name, error)
                framed.close()
                return
        self.connections[framed.fileno()] = connection
        self._epoll.register(framed.fileno(), 0)
        if hello.get("version") != VERSION:
            text = f"this server speaks version {VERSION} of the protocol, the client {hello.get('version')}"
            connection.send_error(0, WordError(f"{text}: install the same gmi-drl on both sides"))
            self._close(connection, text)
            return
        is_here = pid > 0 and self._host is not None and hello.get("host") == self._host
        if is_here and not self._process_ends.watch(connection, pid):
            self._close(connection, "its process has ended")
            return
        connection.send(WELCOME, [to_json(0, self._handler.welcome())])
        self._want(connection)

    def _serve(self, connection: Connection, events: int) -> None:
        try:
            if events & EPOLLOUT:
                connection.framed.flush()
                connection.flushed()
            if connection.parked:
                if events & (EPOLLRDHUP | EPOLLHUP):
                    self._close(connection, None)
                    return
            elif events & ~EPOLLOUT:
                self._read(connection)
        except (FrameError, WordError) as error:
            self._close(connection, str(error))
            return
        except UsageError as error:  # more streams than blocks: this one cannot write
            connection.send_error(0, error)
            self._close(connection, str(error))
            return
        except Exception as error:  # a fault of ours must not end the others' tables
            LOG.exception("%s", connection.name)
            self._close(connection, f"{type(error).__name__}: {error}")
            return
        if not connection.framed.is_open:
            self._close(connection, None)
            return
        self._want(connection)

    def _read(self, connection: Connection) -> None:
        arrived = connection.framed.read(_TURN_BYTES, may_stop=True)
        for number, (kind, message) in enumerate(arrived, start=1):
            connection.settle()
            if connection.framed.is_receiving:
                raise WordError(f"a message of kind {kind} came where rows were expected")
            request = self._handler.handle(connection, kind, message)
            if request is not None and not request.attempt():
                connection.parked = request
                self._parked.append(connection)
                return
            if number == _TURN_MESSAGES or connection.framed.is_sending:
                break
        connection.settle()

    def _retry(self, now: float) -> None:
        """Attempt all requests that wait, the longest waiting first."""
        for connection in self.waiting():
            request = connection.parked
            if request is None:
                continue
            try:
                if not request.attempt():
                    if now < request.deadline:
                        continue
                    request.expire()
            except WordError as error:
                self._close(connection, str(error))
                continue
            except Exception as error:
                LOG.exception("%s", connection.name)
                self._close(connection, f"{type(error).__name__}: {error}")
                continue
            self._parked.remove(connection)
            connection.parked = None
            self._want(connection)

    def _look(self, now: float) -> None:
        """Help or cut off clients that do not read, and those that do not greet."""
        self._accept()
        if any(one.parked is not None and one.parked.waits_for == "blocks" for one in self._parked):
            for connection in self.connections.values():
                connection.take_back(now - LEASE_S)
        for connection in list(self._sending):
            connection.look(now)
            if now - connection.reading_since > self._hang_s:
                self._close(connection, f"it has not read for {self._hang_s:g} s (hang_s)")

    def _want(self, connection: Connection) -> None:
        """Read no more from a client that waits or has not read its last answer: the network holds it back."""
        is_sending = connection.framed.is_sending
        if not is_sending:
            self._sending.discard(connection)
        elif connection not in self._sending:
            self._sending.add(connection)
            connection.reading_since = time.monotonic()
        events = EPOLLOUT if is_sending else EPOLLRDHUP if connection.parked else EPOLLIN
        descriptor = connection.framed.fileno()
        if self._wanted.get(descriptor) != events:
            self._wanted[descriptor] = events
            self._epoll.modify(descriptor, events)

    def _close(self, connection: Connection, reason: str | None) -> None:
        if reason is not None:
            LOG.warning("%s was closed: %s", connection.name, reason)
        self._process_ends.forget(connection)
        descriptor = connection.framed.fileno()
        self.connections.pop(descriptor, None)
        self._wanted.pop(descriptor, None)
        self._sending.discard(connection)
        if connection in self._parked:
            self._parked.remove(connection)
        self.received += connection.framed.received
        self.sent += connection.framed.sent
        connection.close()


def _hello(payload: bytes) -> Mapping[str, Any]:
    try:
        hello = json.loads(payload)
    except (ValueError, RecursionError):
        return {}
    return hello if isinstance(hello, dict) else {}


def _peer(client: Client) -> str:
    try:
        return ":".join(map(str, client.connection.getpeername()[:2]))
    except OSError:
        return "gone"
