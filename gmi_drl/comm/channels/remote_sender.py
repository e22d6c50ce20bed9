"""Sends an agent's experience to its proxy on another host, while the agent goes on."""

import os
import threading
import time
from collections import Counter, deque
from collections.abc import Callable
from contextlib import suppress
from select import POLLIN, POLLOUT, poll
from typing import NamedTuple

import torch

from gmi_drl.comm.channels.remote_protocol import GRANT, GRANTED, NO_MORE, PIECE, READY, TRAINERS_ALIVE
from gmi_drl.comm.links.framing import FAILURE, FramedConnection
from gmi_drl.comm.memory.leases import Lease
from gmi_drl.comm.memory.wait_clock import WaitClock
from gmi_drl.errors import GmiError, MachineError, PeerDiedError, PeerSilentError, UsageError

_NAP_S = 0.5

_ERRORS: dict[str, type[GmiError]] = {
    error.__name__: error for error in (PeerDiedError, PeerSilentError, UsageError, MachineError, GmiError)
}


def error_of(payload: bytes) -> GmiError:
    """The error that a proxy has sent."""
    name, _, text = payload.decode(errors="replace").partition("\n")
    return _ERRORS.get(name, GmiError)(text)


class Grant(NamedTuple):
    """A leased place, and the version of the parameters that were the newest at that time."""

    lease: Lease
    version: int


class RemoteSender:
    """The agent's end of the connection: a thread of its own sends and receives.

    Messages go before pieces, so the next place is requested while the last pieces of a rollout are still being sent.

    Args:
        connection: To the proxy; this object owns it from now on.
        name: Of the proxy, for errors.
        own: Of this GMI, for errors.
    """

    def __init__(self, connection: FramedConnection, name: str, own: str) -> None:
        self._connection, self._name, self._own = connection, name, own
        self.is_ready = self.is_ended = False
        self.parameters = torch.empty(0, dtype=torch.uint8)
        self._grant: Grant | None = None
        self._arriving: Grant | None = None  # whose parameters are on their way
        self._messages: deque[tuple[int, bytes]] = deque()
        self._pieces: deque[tuple[int, bytes, memoryview]] = deque()
        self._sending: int | None = None  # the rollout of the piece in the connection
        self._unsent: Counter[int] = Counter()  # pieces by rollout
        self._keepalives = 0  # received from trainers
        self._lost: GmiError | None = None
        self._is_closed = False
        self._changed = threading.Condition()  # guards all of the above
        self._eventfd = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._thread = threading.Thread(target=self._run, name="remote-sender", daemon=True)
        self._thread.start()

    def send(self, kind: int, text: bytes = b"") -> None:
        """Send a message."""
        with self._changed:
            self._messages.append((kind, text))
        os.eventfd_write(self._eventfd, 1)

    def send_piece(self, rollout: int, head: bytes, data: memoryview) -> None:
        """Send a piece of a rollout. Its data must not change until `has_sent` that rollout."""
        with self._changed:
            self._pieces.append((rollout, head, data))
            self._unsent[rollout] += 1
        os.eventfd_write(self._eventfd, 1)

    def has_sent(self, rollout: int) -> bool:
        """Whether the memory of a rollout may be written again."""
        return not self._unsent[rollout]

    def take_grant(self) -> Grant | None:
        """The place that was requested, once."""
        grant, self._grant = self._grant, None
        return grant

    def has_reply(self) -> bool:
        """Whether the requested place is there, or no more is needed."""
        return self._grant is not None or self.is_ended

    def wait_for(self, is_done: Callable[[], bool], action: str, most_s: float) -> None:
        """Sleep until the condition is true. What the proxy did before it ended counts.

        Raises:
            PeerDiedError: If the proxy has ended; or any other error that it has sent.
            PeerSilentError: If for `most_s` seconds the condition is false, no data has moved, and no trainer that the
                proxy waits for has sent a keepalive.
        """
        waiting = WaitClock()
        with self._changed:
            while not is_done():
                if self._lost is not None:
                    raise self._lost
                self._changed.wait(_NAP_S)
                waiting.restart_on_change((self._connection.sent, self._connection.received, self._keepalives))
                waiting.warn_if_slow(lambda: f"{self._own} waits until {self._name} has {action}")
                if waiting.look() > most_s:
                    text = f"{self._name} has not {action} for {most_s:g} s while {self._own} waited"
                    self._lost = PeerSilentError(f"{text}: see the logs of both nodes, or raise hang_s")

    def finish(self, last_message: int, most_s: float) -> None:
        """Send what is left and a last message, and wait for the proxy to end: at most `most_s` seconds in all."""
        deadline = time.monotonic() + most_s
        with self._changed:
            if self._changed.wait_for(lambda: self._lost is not None or not self._unsent.total(), most_s):
                self.send(last_message)
                self._changed.wait_for(lambda: self._lost is not None, deadline - time.monotonic())

    def close(self) -> None:
        """Close the connection, whatever is still to be sent."""
        self._is_closed = True
        os.eventfd_write(self._eventfd, 1)
        self._thread.join()
        self._connection.close()
        os.close(self._eventfd)

    def _run(self) -> None:
        polling = poll()
        polling.register(self._eventfd, POLLIN)
        polling.register(self._connection, POLLIN)
        lost: GmiError | None = None
        try:
            while self._connection.is_open and not self._is_closed:
                self._feed()
                polling.modify(self._connection, POLLIN | POLLOUT * self._connection.is_sending)
                polling.poll()
                with suppress(BlockingIOError):
                    os.eventfd_read(self._eventfd)
                self._connection.flush()
                for kind, payload in self._connection.read():
                    self._handle(kind, payload)
                if self._arriving is not None and not self._connection.is_receiving:
                    self._publish_grant(self._arriving)
        except GmiError as error:
            lost = error
        except Exception as error:  # the waiting thread raises it
            lost = GmiError(f"the connection to {self._name} failed: {type(error).__name__}: {error}")
        with self._changed:
            died = f"{self._name} ended while {self._own} needed it: its log says why"
            self._lost = self._lost or lost or PeerDiedError(died)
            self._changed.notify_all()

    def _feed(self) -> None:
        """Give the connection what comes next, as long as it takes it."""
        while not self._connection.is_sending:
            with self._changed:
                if self._sending is not None:
                    self._unsent[self._sending] -= 1
                    self._unsent += Counter()  # drop rollouts that are sent
                    self._sending = None
                    self._changed.notify_all()
                message = self._messages.popleft() if self._messages else None
                piece = self._pieces.popleft() if self._pieces and message is None else None
                self._sending = piece[0] if piece else None
            if message is not None:
                self._connection.send_frame(*message)
            elif piece is not None:
                self._connection.send_frame(PIECE, piece[1])
                self._connection.send_data(piece[2])
            else:
                return

    def _handle(self, kind: int, payload: bytes) -> None:
        if kind == GRANTED:
            trainer, place, version, has_parameters = GRANT.unpack(payload)
            self._arriving = Grant(Lease(trainer, place), version)
            if has_parameters:
                self._connection.receive_data(self.parameters.numpy().data.cast("B"))
            return
        with self._changed:
            if kind == FAILURE:
                self._lost = error_of(payload)
            self._keepalives += kind == TRAINERS_ALIVE
            self.is_ready |= kind == READY
            self.is_ended |= kind == NO_MORE
            self._changed.notify_all()

    def _publish_grant(self, grant: Grant) -> None:
        with self._changed:
            self._grant, self._arriving = grant, None
            self._changed.notify_all()
