"""What carries an agent's experience to its stand-in on another host, while the agent goes on."""

import os
import threading
import time
from collections import Counter, deque
from collections.abc import Callable
from contextlib import suppress
from select import POLLIN, POLLOUT, poll
from typing import NamedTuple

import torch

from gmi_drl.comm.channels.remote_protocol import GRANT, GRANTED, NO_MORE, PIECE, ROOM, STILL
from gmi_drl.comm.links.framing import LOST, FramedConnection
from gmi_drl.comm.memory.leases import Lease
from gmi_drl.comm.memory.wait_clock import WaitClock
from gmi_drl.errors import GmiError, MachineError, PeerDiedError, PeerSilentError, UsageError

_NAP_S = 0.5

_ERRORS: dict[str, type[GmiError]] = {
    error.__name__: error for error in (PeerDiedError, PeerSilentError, UsageError, MachineError, GmiError)
}


class Grant(NamedTuple):
    """A place, and the version of the parameters that were the newest when it was leased."""

    lease: Lease
    version: int


class RemoteSender:
    """The agent's end of the connection: a thread of its own sends and hears.

    Words go before pieces, so the next place is asked for while the last pieces of a rollout are still under way.

    Args:
        wire: To the stand-in; from now on this object's.
        name: Of the stand-in, for errors.
        own: Of this GMI, for errors.
    """

    def __init__(self, wire: FramedConnection, name: str, own: str) -> None:
        self._wire, self._name, self._own = wire, name, own
        self.has_room = self.is_over = False
        self.parameters = torch.empty(0, dtype=torch.uint8)
        self._grant: Grant | None = None
        self._coming: Grant | None = None  # its parameters are on their way
        self._words: deque[tuple[int, bytes]] = deque()
        self._pieces: deque[tuple[int, bytes, memoryview]] = deque()
        self._sending: int | None = None  # the rollout whose piece the wire has
        self._unsent: Counter[int] = Counter()  # pieces, by their rollout
        self._still = 0  # how often a trainer has shown that it is not silent
        self._lost: GmiError | None = None
        self._is_closed = False
        self._changed = threading.Condition()  # guards all of these
        self._bell = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._thread = threading.Thread(target=self._carry, name="carrier", daemon=True)
        self._thread.start()

    def say(self, kind: int, text: bytes = b"") -> None:
        """Send a word."""
        with self._changed:
            self._words.append((kind, text))
        os.eventfd_write(self._bell, 1)

    def put(self, rollout: int, head: bytes, numbers: memoryview) -> None:
        """Send a piece of a rollout: numbers that stay as they are until `has_sent` that rollout."""
        with self._changed:
            self._pieces.append((rollout, head, numbers))
            self._unsent[rollout] += 1
        os.eventfd_write(self._bell, 1)

    def has_sent(self, rollout: int) -> bool:
        """Whether the memory of a rollout may be written again."""
        return not self._unsent[rollout]

    def take_grant(self) -> Grant | None:
        """The place that was asked for, once."""
        grant, self._grant = self._grant, None
        return grant

    def has_answered(self) -> bool:
        """Whether the place that was asked for is there, or no more is needed."""
        return self._grant is not None or self.is_over

    def wait_for(self, is_done: Callable[[], bool], action: str, most_s: float) -> None:
        """Sleep until the stand-in has done something. What it did before it ended counts.

        Raises:
            PeerDiedError: If it has ended; or any other error that it has told of.
            PeerSilentError: If it has not done it, nothing has moved, and no trainer that it waits for has heard
                anything, for so many seconds.
        """
        waiting = WaitClock()
        with self._changed:
            while not is_done():
                if self._lost is not None:
                    raise self._lost
                self._changed.wait(_NAP_S)
                waiting.restart_on_change((self._wire.sent, self._wire.received, self._still))
                waiting.warn_if_slow(lambda: f"{self._own} waits until {self._name} has {action}")
                if waiting.look() > most_s:
                    text = f"{self._name} has not {action} for {most_s:g} s while {self._own} waited"
                    self._lost = PeerSilentError(f"{text}: see the logs of both nodes, or raise hang_s")

    def finish(self, last_word: int, most_s: float) -> None:
        """Send what is left and a last word, and wait for the stand-in to end: so many seconds in all."""
        deadline = time.monotonic() + most_s
        with self._changed:
            if self._changed.wait_for(lambda: self._lost is not None or not self._unsent.total(), most_s):
                self.say(last_word)
                self._changed.wait_for(lambda: self._lost is not None, deadline - time.monotonic())

    def close(self) -> None:
        """Be done with it, whatever is still to be sent."""
        self._is_closed = True
        os.eventfd_write(self._bell, 1)
        self._thread.join()
        self._wire.close()
        os.close(self._bell)

    def _carry(self) -> None:
        looking = poll()
        looking.register(self._bell, POLLIN)
        looking.register(self._wire, POLLIN)
        lost: GmiError | None = None
        try:
            while self._wire.is_open and not self._is_closed:
                self._feed()
                looking.modify(self._wire, POLLIN | POLLOUT * self._wire.is_sending)
                looking.poll()
                with suppress(BlockingIOError):
                    os.eventfd_read(self._bell)
                self._wire.flush()
                for kind, said in self._wire.read():
                    self._hear(kind, said)
                if self._coming is not None and not self._wire.is_receiving:
                    self._has_come(self._coming)
        except GmiError as error:
            lost = error
        except Exception as error:  # else who waits would hear of it late, and not of what
            lost = GmiError(f"{self._name} cannot be heard: {type(error).__name__}: {error}")
        with self._changed:
            died = f"{self._name} ended while {self._own} needed it: its log says why"
            self._lost = self._lost or lost or PeerDiedError(died)
            self._changed.notify_all()

    def _feed(self) -> None:
        """Give the wire what comes next, as long as it takes it."""
        while not self._wire.is_sending:
            with self._changed:
                if self._sending is not None:
                    self._unsent[self._sending] -= 1
                    self._unsent += Counter()  # without those of which all are sent
                    self._sending = None
                    self._changed.notify_all()
                word = self._words.popleft() if self._words else None
                piece = self._pieces.popleft() if self._pieces and word is None else None
                self._sending = piece[0] if piece else None
            if word is not None:
                self._wire.tell(*word)
            elif piece is not None:
                self._wire.tell(PIECE, piece[1])
                self._wire.send(piece[2])
            else:
                return

    def _hear(self, kind: int, said: bytes) -> None:
        if kind == GRANTED:
            trainer, place, version, has_parameters = GRANT.unpack(said)
            self._coming = Grant(Lease(trainer, place), version)
            if has_parameters:
                self._wire.receive(self.parameters.numpy().data.cast("B"))
            return
        with self._changed:
            if kind == LOST:
                name, _, text = said.decode().partition("\n")
                self._lost = _ERRORS.get(name, GmiError)(text)
            self._still += kind == STILL
            self.has_room |= kind == ROOM
            self.is_over |= kind == NO_MORE
            self._changed.notify_all()

    def _has_come(self, grant: Grant) -> None:
        with self._changed:
            self._grant, self._coming = grant, None
            self._changed.notify_all()
