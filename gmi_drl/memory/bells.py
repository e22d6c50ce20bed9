"""How a GMI sleeps until a peer has done something, or has ended."""

import math
import os
from collections.abc import Callable
from contextlib import suppress
from select import POLLIN, poll
from typing import NoReturn

from gmi_drl.errors import MachineError, PeerDiedError, PeerSilentError
from gmi_drl.memory.post import Post, PostMemory
from gmi_drl.memory.waiting import Waiting

_NAP_S = 0.5  # at most, so that `Waiting`, which takes what is longer than a second for a standstill, counts all


class Bells:
    """The bell of one GMI, which others ring when they have changed what it may wait for, and theirs.

    Nobody spins: who waits sleeps until its bell rings or the peer's process ends. A ring tells not what has changed.

    Args:
        post: Whose bells; they stay the caller's to close.
        memory: The same post's, where processes leave their ids.
        own: The id of this GMI.
        hang_s: Seconds after which a peer that lives counts as silent; only those count in which this process ran.
    """

    def __init__(self, post: Post, memory: PostMemory, own: int, hang_s: float) -> None:
        self.own = own
        self._bells, self._memory, self._hang_s = post.bells, memory, hang_s
        self._polls: dict[int, poll] = {}
        self._pidfds: list[int] = []
        self._ended: set[int] = set()
        self._unwatched = poll()
        self._unwatched.register(self._bells[own], POLLIN)
        memory.pids[own] = os.getpid()
        for peer in range(len(self._bells)):
            if peer != own:
                self.ring(peer)  # who waits for us already can watch us now

    def ring(self, peer: int) -> None:
        """Wake a peer, or let it not fall asleep: to be called after what it may wait for has changed."""
        os.eventfd_write(self._bells[peer], 1)

    def wait(self, is_done: Callable[[], bool], peer: int, deed: str) -> None:
        """Sleep until a peer has done something. What it did before it ended counts.

        Args:
            is_done: Whether it has.
            peer: The id of its GMI.
            deed: What, for errors: "sent a message".

        Raises:
            PeerDiedError: If its process has ended.
            PeerSilentError: If it has not done it within `hang_s`.
        """
        if is_done():
            return
        waiting = Waiting()
        while True:
            left_s = self._hang_s - waiting.seconds
            has_ended = self._sleep(peer, min(max(left_s, 0.0), _NAP_S))
            if is_done():
                return
            if has_ended:
                self._raise_ended(peer, deed)
            waiting.tell_if_slow(lambda: f"GMI {self.own} waits until {self._named(peer)} has {deed}")
            if waiting.look() > self._hang_s:
                here = "lives but" if self._memory.pids[peer] else "is not here yet and"
                text = f"{self._named(peer)} {here} has not {deed} for {self._hang_s:g} s (hang_s)"
                raise PeerSilentError(f"{text} while GMI {self.own} waited: see what it does, or raise hang_s")

    def check(self, peer: int, deed: str) -> None:
        """Raise `PeerDiedError` if a peer has ended, who now will never have done something."""
        if self._sleep(peer, 0.0):
            self._raise_ended(peer, deed)

    def close(self) -> None:
        """Stop watching the peers."""
        self._polls.clear()
        while self._pidfds:
            os.close(self._pidfds.pop())

    def _sleep(self, peer: int, seconds: float) -> bool:
        """Until the own bell rings or the peer ends, or for so long; whether the peer has ended."""
        watch = self._watch(peer)
        if peer not in self._ended:
            for descriptor, _ in watch.poll(math.ceil(1000 * seconds)):
                if descriptor == self._bells[self.own]:
                    with suppress(BlockingIOError):
                        os.eventfd_read(descriptor)
                else:
                    self._ended.add(peer)
        return peer in self._ended

    def _watch(self, peer: int) -> poll:
        """What wakes while a peer is waited for: the own bell and, since it has come, its end."""
        if peer in self._polls or not self._memory.pids[peer]:
            return self._polls.get(peer, self._unwatched)
        try:
            self._pidfds.append(pidfd := os.pidfd_open(self._memory.pids[peer]))
        except ProcessLookupError:
            self._ended.add(peer)
            return self._unwatched
        except OSError as error:
            raise MachineError(f"{self._named(peer)} cannot be watched: {error.strerror} (ulimit -n)") from error
        self._polls[peer] = poll()
        self._polls[peer].register(self._bells[self.own], POLLIN)
        self._polls[peer].register(pidfd, POLLIN)
        return self._polls[peer]

    def _raise_ended(self, peer: int, deed: str) -> NoReturn:
        raise PeerDiedError(f"{self._named(peer)} ended and has not {deed} for GMI {self.own}: its log says why")

    def _named(self, peer: int) -> str:
        pid = self._memory.pids[peer]
        return f"GMI {peer} (process {pid})" if pid else f"GMI {peer}"
