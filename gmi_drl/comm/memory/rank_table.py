"""The table that the ranks of a group share: their processes, how many collective calls each has made, and which."""

import mmap
import os
import time
from select import POLLIN, poll
from typing import NoReturn

from gmi_drl.comm.membership import Membership
from gmi_drl.comm.memory.collective_calls import BARRIER, CALL_BITS, mismatch
from gmi_drl.comm.memory.fence import order_loads, publish
from gmi_drl.comm.memory.segment import LINE_BYTES
from gmi_drl.comm.memory.wait_clock import WaitClock, is_stopped
from gmi_drl.errors import MachineError, PeerDiedError, PeerSilentError, UsageError

_LINE_WORDS = LINE_BYTES // 8
_PID, _LEFT, _KEEPALIVES = 2, 3, 4  # the words of a line, after the two arrivals
_CALL_MODULUS = 2**15  # the number of a call is modulo this, an even number; ranks are at most one call apart
_SPINS = 200  # reads of a word (about 10 us) before the core is yielded
_YIELD_S = 0.02
_NAP_MS = 1
_DEATH_MS = 1000


class RankTable:
    """A barrier in shared memory. Each rank has a line: its last two arrivals, its process id, and whether it has left.

    An arrival is one word that holds the number of the call and its code (`call_code`), so that others see both at
    once. It is published (`fence.publish`): a rank that has met the others sees all that they stored before. Even and
    odd calls have a word each. So a rank that is already at its next call has visibly passed this one, and its code of
    this call can still be read; it comes to the call after that only when all ranks have read this one.

    Args:
        memory: Zeroed when the first rank opens it; `size` lines from `offset`.
        offset: Bytes before the first line.
        member: This process.

    Raises:
        PeerSilentError: If a peer has not opened its table within `hang_s`.
    """

    def __init__(self, memory: mmap.mmap, offset: int, member: Membership) -> None:
        rank, size = member.rank, member.size
        self._member = member
        self._own_name = member.name(rank)
        self._spins = _SPINS if member.spins else 1
        self._words = memoryview(memory)[offset : offset + size * LINE_BYTES].cast("q")
        self._others = [peer for peer in range(size) if peer != rank]
        self._places = [[(peer, peer * _LINE_WORDS + parity) for peer in self._others] for parity in range(2)]
        self._own = rank * _LINE_WORDS
        self._count = self._arrival = 0
        self._poll = poll()
        self._watched: dict[int, int] = {}  # pidfd -> rank
        self._dead: set[int] = set()
        self._words[self._own + _PID] = os.getpid()
        member.keepalives.send.append(self._renew)
        self.sync()
        try:
            for peer in self._others:
                self._watch(peer)
        except BaseException:
            self.close()
            raise

    def sync(self, call: int = BARRIER) -> None:
        """Arrive, and wait until all ranks have arrived at the same call. It spins, then yields its core, then sleeps.

        Args:
            call: What this rank calls (`call_code`).

        Raises:
            UsageError: If another rank makes another call. All ranks raise it.
            PeerDiedError: If a rank that has not arrived has ended.
            PeerSilentError: If one has not arrived within `hang_s`.
        """
        self._count = count = self._count + 1
        words, parity = self._words, count % 2
        self._arrival = arrival = count % _CALL_MODULUS << CALL_BITS | call
        publish(words, self._own + parity, arrival)
        for _, place in self._places[parity]:
            for _ in range(self._spins):
                if words[place] == arrival:
                    break
            else:
                self._sync_patiently()
                break
        order_loads()  # reads after this see what the others stored before they arrived

    def _sync_patiently(self) -> None:
        started = time.perf_counter()
        waiting: WaitClock | None = None
        while self.late():
            if time.perf_counter() - started < _YIELD_S:
                os.sched_yield()
            else:
                waiting = waiting or WaitClock()
                self.check(waiting, _NAP_MS)
        if any(self._words[place] != self._arrival for _, place in self._places[self._count % 2]):
            calls = [word % 2**CALL_BITS for word in self._words[self._count % 2 :: _LINE_WORDS]]
            raise UsageError(mismatch(calls, self._member))

    def late(self) -> list[int]:
        """The ranks that have arrived less often than this one."""
        words, count = self._words, self._arrival >> CALL_BITS
        return [peer for peer, place in self._places[self._count % 2] if words[place] >> CALL_BITS != count]

    def check(self, waiting: WaitClock, nap_ms: int = 0) -> None:
        """Look once whether it still makes sense to wait for the others.

        Args:
            waiting: A clock that was started with the wait.
            nap_ms: Milliseconds to sleep meanwhile; a death ends the sleep.

        Raises:
            PeerDiedError: If a late rank has ended.
            PeerSilentError: If `hang_s` have passed.
        """
        self._notice_deaths(nap_ms)
        late = self.late()
        if dead := [peer for peer in late if peer in self._dead]:
            raise PeerDiedError(f"{self._named(dead)} ended while {self._own_name} waited for it: its log says why")
        if waiting.restart_on_change(tuple(self._words[peer * _LINE_WORDS + _KEEPALIVES] for peer in self._others)):
            for received in self._member.keepalives.received:
                received()
        waiting.warn_if_slow(lambda: f"{self._own_name} waits for {self._named(late or self._others)}")
        if waiting.look() > self._member.hang_s:
            waited = f"for {self._member.hang_s:g} s (hang_s) while {self._own_name} waited"
            raise PeerSilentError(f"{self._silence(late)} {waited}: see what it does, or raise hang_s")

    def _renew(self) -> None:
        """Send a keepalive to the other ranks."""
        self._words[self._own + _KEEPALIVES] += 1

    def any_dead(self) -> bool:
        """Whether `check` has seen the end of a rank, arrived or not."""
        return bool(self._dead)

    def raise_lost(self, reason: str) -> NoReturn:
        """Raise an error that names the dead rank, after a transport has reported the loss of a peer.

        The peer may take a moment to die.

        Args:
            reason: The transport's message.

        Raises:
            PeerDiedError: Always.
        """
        self._notice_deaths(0 if self._dead else _DEATH_MS)
        if self._dead:
            raise PeerDiedError(
                f"{self._named(sorted(self._dead))} ended while {self._own_name} reduced with it: {reason}"
            )
        raise PeerDiedError(f"a peer of {self._own_name} has left the group: {reason}")

    def leave(self, most_s: float) -> None:
        """Wait at most `most_s` seconds until all others have left or ended. Some may not know that they should."""
        publish(self._words, self._own + _LEFT, 1)
        waiting = WaitClock()
        while self._peers_still_here() and waiting.look() < most_s:
            self._notice_deaths(_NAP_MS)

    def close(self) -> None:
        """Stop watching the peers."""
        for pidfd in self._watched:
            os.close(pidfd)
        self._watched.clear()
        self._poll = poll()

    def _silence(self, late: list[int]) -> str:
        """Describe the silent ranks. If all have arrived, one of them stands still half-way through the call."""
        if late:
            return f"{self._named(late)} lives but has not arrived"
        stopped = [peer for peer in self._others if is_stopped(self._pid(peer))]
        if stopped:
            return f"{self._named(stopped)} has been stopped half-way"
        return f"one of {self._named(self._others)} lives but has not gone on"

    def _peers_still_here(self) -> bool:
        left = [peer for peer in self._others if self._words[peer * _LINE_WORDS + _LEFT]]
        return not self._dead.issuperset(set(self._others).difference(left))

    def _watch(self, peer: int) -> None:
        try:
            pidfd = os.pidfd_open(self._pid(peer))
        except ProcessLookupError:
            self._dead.add(peer)
            return
        except OSError as error:
            raise MachineError(f"{self._named([peer])} cannot be watched: {error.strerror} (ulimit -n)") from error
        self._watched[pidfd] = peer
        self._poll.register(pidfd, POLLIN)

    def _notice_deaths(self, nap_ms: int) -> None:
        for pidfd, _ in self._poll.poll(nap_ms):
            self._dead.add(self._watched[pidfd])
            self._poll.unregister(pidfd)

    def _pid(self, peer: int) -> int:
        return self._words[peer * _LINE_WORDS + _PID]

    def _named(self, peers: list[int]) -> str:
        pids = {peer: self._pid(peer) or "not yet here" for peer in peers}
        return ", ".join(f"{self._member.name(peer)} (process {pid})" for peer, pid in pids.items())
