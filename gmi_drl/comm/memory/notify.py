"""How a GMI sleeps until a peer has done something or has ended."""

import math
import os
from collections.abc import Callable, Iterable, Sequence
from select import POLLIN, POLLOUT, poll

from gmi_drl.comm.memory.mailbox_memory import Mailboxes, MailboxMemory
from gmi_drl.comm.memory.short_sleep import sleep_until_readable
from gmi_drl.comm.memory.wait_clock import WaitClock
from gmi_drl.errors import MachineError, PeerDiedError, PeerSilentError

_NAP_S = 0.5  # below a second, beyond which `WaitClock` counts a pause as a standstill


class Notifier:
    """Wakes other GMIs, and lets this one sleep until a peer notifies it or its process ends.

    Waiting does not spin. A notification does not say what has changed, so a waiting GMI checks its condition before it
    sleeps. A GMI may have several notifiers, for messages and for channels, if one thread uses them.

    Args:
        mailboxes: Their eventfds; the caller closes them.
        memory: Of the same mailboxes, where processes leave their ids.
        own: The id of this GMI.
        hang_s: Seconds after which a living peer counts as silent; only seconds in which this process ran count.
    """

    def __init__(self, mailboxes: Mailboxes, memory: MailboxMemory, own: int, hang_s: float) -> None:
        self.own = own
        self._eventfds, self._memory, self.hang_s = mailboxes.eventfds, memory, hang_s
        self._pidfds: dict[int, int] = {}  # peers by pidfd
        self._watched: set[int] = set()  # peers with a pidfd, and those whose process had already ended
        self._ended: set[int] = set()
        self._elsewhere: set[int] = set()
        self._descriptors: set[int] = set()  # of `watch_descriptor`
        self._poll, self._eventfd = poll(), self._eventfds[own]
        self._poll.register(self._eventfd, POLLIN)
        memory.set_pid(own, os.getpid())
        self.notify_here(self._eventfds)  # peers that wait for this GMI already can watch it now

    def notify(self, peer: int) -> None:
        """Wake a peer, or keep it from falling asleep. Call it after a change for which the peer may wait."""
        os.eventfd_write(self._eventfds[peer], 1)

    def notify_here(self, peers: Iterable[int]) -> None:
        """Wake those of these peers that are on this host, without this one."""
        for peer in peers:
            if peer in self._eventfds and peer != self.own:
                self.notify(peer)

    def wait(self, is_done: Callable[[], bool], peer: int, action: str) -> None:
        """Sleep until a peer has done something: `wait_for` with one peer."""
        self.wait_for(is_done, (peer,), action)

    def wait_for(
        self,
        is_done: Callable[[], bool],
        peers: Sequence[int],
        action: str,
        patience: float = 1,
        progress: Callable[[], object] = lambda: 0,
    ) -> None:
        """Sleep until the condition is true. What peers did before one of them ended counts.

        Args:
            is_done: The condition.
            peers: The ids of the GMIs that make it true, one at least.
            action: What they do, for errors: "sent a message".
            patience: How many times `hang_s` this waits; see `gmi_drl.layout.waits`.
            progress: The wait starts again whenever this value changes.

        Raises:
            PeerDiedError: If the process of a peer has ended.
            PeerSilentError: If the condition is still false after that time.
        """
        if is_done():
            return
        waiting, most_s, left_s = WaitClock(), patience * self.hang_s, patience * self.hang_s
        while True:
            lost = self._sleep(peers, min(max(left_s, 0.0), _NAP_S))
            if is_done():
                return
            if lost:
                raise self._ended_error(lost[0], action)
            waiting.restart_on_change(progress())
            waiting.warn_if_slow(lambda: f"GMI {self.own} waits until {self._all_named(peers)} has {action}")
            if waiting.look() > most_s:
                here = "lives but" if all(map(self.has_come, peers)) else "is not here yet and"
                waited = f"{most_s:g} s ({'hang_s' if patience == 1 else f'{patience:g} x hang_s'})"
                text = f"{self._all_named(peers)} {here} has not {action} for {waited} while GMI {self.own} waited"
                raise PeerSilentError(f"{text}: see what it does, or raise hang_s")
            left_s = most_s - waiting.seconds

    def check(self, peer: int, action: str) -> None:
        """Raise `PeerDiedError` if a peer has ended, which then will never do `action`."""
        if self._sleep((peer,), 0.0):
            raise self._ended_error(peer, action)

    def watch_descriptor(self, descriptor: int, *, is_sending: bool = False) -> None:
        """Also wake up while a descriptor can be read, or its other end is gone.

        Args:
            descriptor: It may have been given before.
            is_sending: Whether to wake up, too, while it can be written.
        """
        self._descriptors.add(descriptor)
        self._poll.register(descriptor, POLLIN | POLLOUT * is_sending)

    def unwatch_descriptor(self, descriptor: int) -> None:
        """Undo `watch_descriptor`."""
        self._descriptors.discard(descriptor)
        self._poll.unregister(descriptor)

    def watch_elsewhere(self, peer: int) -> None:
        """Wait for a peer on another host as for others: a descriptor that is watched wakes this process.

        One that has ended may have been started again: it is there from now on.
        """
        self._ended.discard(peer)
        self._elsewhere.add(peer)
        self._watched.add(peer)

    def set_ended(self, peer: int) -> None:
        """Note that a peer on another host has ended."""
        self._ended.add(peer)

    def has_come(self, peer: int) -> bool:
        """Whether a peer has ever been there."""
        return peer in self._elsewhere or bool(self._memory.pid(peer))

    def leave(self) -> None:
        """End as this GMI, though this process goes on; the peers are woken."""
        self._memory.leave(self.own)
        self.notify_here(self._eventfds)

    def poll_ended(self, peers: Sequence[int]) -> list[int]:
        """The peers among these whose processes have ended by now."""
        return self._sleep(peers, 0.0)

    def seen_ended(self, peers: Sequence[int]) -> list[int]:
        """The peers among these whose end this notifier has already seen, in any wait or poll."""
        return [peer for peer in peers if peer in self._ended] if self._ended else []

    def wait_at_most(self, is_done: Callable[[], bool], most_s: float) -> bool:
        """Wait at most `most_s` seconds for the condition, whoever ends meanwhile. Returns whether it became true."""
        waiting = WaitClock()
        while not (done := is_done()) and waiting.look() < most_s:
            self._sleep((), min(most_s - waiting.seconds, _NAP_S))
        return done

    def nap(self, seconds: float) -> None:
        """Sleep until a notification, or until a descriptor can be read, for `seconds` at most: also for microseconds.

        Other waits sleep whole milliseconds. The end of a process does not end this one.
        """
        sleep_until_readable((self._eventfd, *self._descriptors), seconds)
        self._sleep((), 0.0)  # so that the same notification does not end the next one

    def watch_successor(self, peer: int) -> None:
        """Watch the process that has taken the place of a peer whose process has ended."""
        self._ended.discard(peer)
        self._watched.discard(peer)
        for pidfd in [pidfd for pidfd, watched in self._pidfds.items() if watched == peer]:
            self._poll.unregister(pidfd)
            os.close(pidfd)
            del self._pidfds[pidfd]
        self._watch(peer)

    def wait_until_left(
        self, peers: Sequence[int], most_s: float, has_left: Callable[[int], bool] = lambda peer: False
    ) -> None:
        """Wait at most `most_s` seconds until each of these peers has left or its process has ended."""
        waiting = WaitClock()
        while waiting.look() < most_s:
            left = [peer for peer in peers if peer not in self._ended and not has_left(peer)]
            if not left:
                return
            self._sleep(left, _NAP_S)

    def close(self) -> None:
        """Stop watching the peers."""
        for pidfd in self._pidfds:
            self._poll.unregister(pidfd)
            os.close(pidfd)
        self._pidfds.clear()
        self._watched.clear()

    def _sleep(self, peers: Sequence[int], seconds: float) -> list[int]:
        """Sleep until a notification, the end of a watched process, or `seconds`. Returns the peers that have ended.

        Does not sleep if one of them has ended already.
        """
        if not self._watched.issuperset(peers):
            for peer in set(peers) - self._watched:
                self._watch(peer)
        for descriptor, _ in self._poll.poll(0 if self.seen_ended(peers) else math.ceil(1000 * seconds)):
            if descriptor == self._eventfd:
                try:  # noqa: SIM105  `suppress` would take as long as the call
                    os.eventfd_read(descriptor)
                except BlockingIOError:
                    pass
            elif descriptor in self._pidfds:
                self._poll.unregister(descriptor)
                os.close(descriptor)
                self._ended.add(self._pidfds.pop(descriptor))
        if self._memory.has_left:  # of a peer on another host it may only be its proxy
            self._ended.update(self._watched.difference(self._elsewhere).intersection(self._memory.left()))
        return self.seen_ended(peers)

    def _watch(self, peer: int) -> None:
        """Watch the process of a peer, if it has come: its end then wakes this process."""
        if not self._memory.pid(peer):
            return
        if peer in self._memory.left():
            self._ended.add(peer)
        try:
            pidfd = os.pidfd_open(self._memory.pid(peer))
        except ProcessLookupError:
            self._ended.add(peer)
        except OSError as error:
            raise MachineError(f"{self._named(peer)} cannot be watched: {error.strerror} (ulimit -n)") from error
        else:
            self._pidfds[pidfd] = peer
            self._poll.register(pidfd, POLLIN)
        self._watched.add(peer)

    def _ended_error(self, peer: int, action: str) -> PeerDiedError:
        return PeerDiedError(f"{self._named(peer)} ended and has not {action} for GMI {self.own}: its log says why")

    def _all_named(self, peers: Sequence[int]) -> str:
        return ", ".join(map(self._named, peers))

    def _named(self, peer: int) -> str:
        pid = 0 if peer in self._elsewhere else self._memory.pid(peer)
        return f"GMI {peer} (process {pid})" if pid else f"GMI {peer}"
