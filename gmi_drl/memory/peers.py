"""The table that the ranks of a group share: who they are, how far they have come and what for."""

import mmap
import os
import time
from select import POLLIN, poll
from typing import NoReturn

from gmi_drl.errors import PeerDiedError, PeerSilentError, UsageError
from gmi_drl.memory.segment import LINE_BYTES

_LINE_WORDS = LINE_BYTES // 8
_PID = 2  # its place in a line, after the two arrivals
_CALL_BITS = 48
_LAP = 2**15  # an even number, which arrivals are counted up to: nobody is more than one ahead of another
_SPINS = 200  # reads of a counter (about 10 us) before the core is offered to others
_YIELD_S = 0.02
_NAP_MS = 1
_LAST_BREATH_MS = 1000
_LOOK_S = 1.0  # the most that one look adds to the time waited: what is longer, this process was not running for

BARRIER, GATHER, REDUCE, REDUCE_SLOT, REDUCE_STAGED = range(5)
"""What ranks come together for. Where all vectors are treated alike, each is a `REDUCE`."""

_KINDS = 8
_DOES = (
    "waits at a barrier",
    "gathers {} numbers",
    "reduces {} numbers",
    "reduces {} numbers in its slot",
    "reduces {} numbers beside its bucket",
)


def call_word(kind: int, numel: int = 0) -> int:
    """What a rank comes for, as one number below 2^48: a kind such as `REDUCE` and how many numbers."""
    return numel * _KINDS + kind


class Waiting:
    """How long this process has waited: the time in which it ran and looked, not that in which it stood still.

    When all ranks were stopped for long, the first to go on would otherwise blame those that are about to.
    """

    def __init__(self) -> None:
        self.seconds = 0.0
        self._last = time.perf_counter()

    def look(self) -> float:
        """The seconds that count so far; to be asked for often."""
        now = time.perf_counter()
        self.seconds += min(now - self._last, _LOOK_S)
        self._last = now
        return self.seconds


class Peers:
    """The ranks of a group: each has one line of shared memory with its last two arrivals and its pid.

    An arrival is one word, the count of arrivals and what the rank came for, so both are seen at once. Even and odd
    ones have a word each: a rank which is already at its next barrier has visibly passed this one, and what it came
    for can still be read. It comes to the one after that only when all have read this one.

    Args:
        memory: Zeroed when the first rank comes; `size` lines from `offset`.
        offset: Bytes before the first line.
        rank: This process.
        size: Processes in the group.
        hang_s: Seconds after which a peer that lives counts as silent.

    Raises:
        PeerSilentError: If a peer has not opened its table within `hang_s`.
    """

    def __init__(self, memory: mmap.mmap, offset: int, rank: int, size: int, hang_s: float) -> None:
        self._rank = rank
        self._hang_s = hang_s
        self._words = memoryview(memory)[offset : offset + size * LINE_BYTES].cast("q")
        self._others = [peer for peer in range(size) if peer != rank]
        self._places = [[(peer, peer * _LINE_WORDS + parity) for peer in self._others] for parity in range(2)]
        self._own = rank * _LINE_WORDS
        self._count = self._arrival = 0
        self._poll = poll()
        self._watched: dict[int, int] = {}  # pidfd -> rank
        self._dead: set[int] = set()
        self._words[self._own + _PID] = os.getpid()
        self.meet()
        for peer in self._others:
            self._watch(peer)

    def meet(self, call: int = BARRIER) -> None:
        """Arrive and wait for all: a spinning barrier that gives way when it takes long.

        Args:
            call: What this rank comes for (`call_word`).

        Raises:
            UsageError: If another comes for something else. All ranks raise it.
            PeerDiedError: If a rank that is waited for has ended.
            PeerSilentError: If one has not arrived within `hang_s`.
        """
        self._count = count = self._count + 1
        words, parity = self._words, count % 2
        self._arrival = arrival = count % _LAP << _CALL_BITS | call
        words[self._own + parity] = arrival
        for _, place in self._places[parity]:
            for _ in range(_SPINS):
                if words[place] == arrival:
                    break
            else:
                self._meet_patiently()
                return

    def _meet_patiently(self) -> None:
        started = time.perf_counter()
        waiting: Waiting | None = None
        while self.late():
            if time.perf_counter() - started < _YIELD_S:
                os.sched_yield()
            else:
                waiting = waiting or Waiting()
                self.check(waiting, _NAP_MS)
        for _, place in self._places[self._count % 2]:
            if self._words[place] != self._arrival:
                self._refuse()

    def _refuse(self) -> NoReturn:
        """Tell, in the same words on every rank, who has come for something else."""
        calls = [word % 2**_CALL_BITS for word in self._words[self._count % 2 :: _LINE_WORDS]]
        other = next(rank for rank, call in enumerate(calls) if call != calls[0])
        first, second = (f"rank {rank} {_said(calls[rank])}" for rank in (0, other))
        raise UsageError(f"{first}, {second}: all ranks must make the same calls in the same order")

    def late(self) -> list[int]:
        """The ranks that have arrived less often than this one."""
        words, count = self._words, self._arrival >> _CALL_BITS
        return [peer for peer, place in self._places[self._count % 2] if words[place] >> _CALL_BITS != count]

    def check(self, waiting: Waiting, nap_ms: int = 0) -> None:
        """Look once whether it makes sense to go on waiting for the others.

        Args:
            waiting: Begun when the waiting began.
            nap_ms: Milliseconds to sleep meanwhile; a death ends the sleep.

        Raises:
            PeerDiedError: If a late rank has ended.
            PeerSilentError: If `hang_s` have passed.
        """
        self._notice_deaths(nap_ms)
        late = self.late()
        if dead := [peer for peer in late if peer in self._dead]:
            raise PeerDiedError(f"{self._named(dead)} ended while rank {self._rank} waited for it: its log says why")
        if waiting.look() > self._hang_s:
            silent = self._named(late or self._others)  # all have arrived: one of them stopped half-way
            text = f"{silent} lives but has not arrived for {self._hang_s:g} s (hang_s) while rank {self._rank} waited"
            raise PeerSilentError(f"{text}: see what it does, or raise hang_s")

    def any_dead(self) -> bool:
        """Whether `check` has seen that a rank ended, arrived or not."""
        return bool(self._dead)

    def raise_lost(self, reason: str) -> NoReturn:
        """Say who has ended after a transport reported the loss of a peer, who may take a moment to die.

        Args:
            reason: What the transport said.

        Raises:
            PeerDiedError: Always.
        """
        self._notice_deaths(0 if self._dead else _LAST_BREATH_MS)
        if self._dead:
            raise PeerDiedError(
                f"{self._named(sorted(self._dead))} ended while rank {self._rank} reduced with it: {reason}"
            )
        raise PeerDiedError(f"a peer of rank {self._rank} has left the group: {reason}")

    def close(self) -> None:
        """Stop watching."""
        for pidfd in self._watched:
            os.close(pidfd)
        self._watched.clear()
        self._poll = poll()

    def _watch(self, peer: int) -> None:
        try:
            pidfd = os.pidfd_open(self._pid(peer))
        except ProcessLookupError:
            self._dead.add(peer)
            return
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
        return ", ".join(f"rank {peer} (process {pid})" for peer, pid in pids.items())


def _said(call: int) -> str:
    numel, kind = divmod(call, _KINDS)
    return _DOES[kind].format(numel)
