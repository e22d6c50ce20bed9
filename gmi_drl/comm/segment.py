"""Memory that the ranks of a group share, and the table in it that says who they are and how far they have come."""

import mmap
import os
import struct
import time
from select import POLLIN, poll
from typing import NoReturn

import psutil

from gmi_drl.errors import MachineError, PeerDiedError, PeerSilentError, UsageError
from gmi_drl.units import human_bytes

LINE_BYTES = 128  # two cache lines: the processor fetches neighbours in pairs
STAGING_BYTES = 512 * 1024  # per rank, for vectors that do not live in the segment; stays in the L2 cache

_HEADER = struct.Struct("8sqq")  # magic, size, slot_bytes
_MAGIC = b"gmi-red1"
_LINE_WORDS = LINE_BYTES // 8
_SPINS = 200  # reads of a counter (about 10 us) before the core is offered to others
_YIELD_S = 0.02
_NAP_MS = 1
_LAST_BREATH_MS = 1000


def create_segment(size: int, slot_bytes: int) -> int:
    """Shared memory for one `SharedMemoryReduction` of `size` ranks, whose bucket has at most `slot_bytes`.

    Returns a file descriptor for `subprocess`'s `pass_fds`; the memory has no name and ends with its last holder.
    A segment serves one group once.

    Raises:
        UsageError: If a number is not positive.
        MachineError: If there is not enough memory.
    """
    if size < 1 or slot_bytes < 1:
        raise UsageError(f"a segment needs size >= 1 and slot_bytes >= 1, not {size} and {slot_bytes}")
    slot_bytes = _rounded(slot_bytes)
    wanted = LINE_BYTES * (1 + size) + size * (slot_bytes + STAGING_BYTES)
    # Without a limit on the file system the kernel would rather kill a process than refuse the room.
    available = psutil.virtual_memory().available
    if wanted > available:
        raise MachineError(_no_room(size, slot_bytes, wanted, f"{human_bytes(available)} are available"))
    fd = os.memfd_create("gmi-drl-reduction", os.MFD_CLOEXEC)
    try:
        os.posix_fallocate(fd, 0, wanted)
    except OSError as error:
        os.close(fd)
        raise MachineError(_no_room(size, slot_bytes, wanted, str(error.strerror))) from error
    os.pwrite(fd, _HEADER.pack(_MAGIC, size, slot_bytes), 0)
    return fd


def map_segment(fd: int, size: int) -> tuple[mmap.mmap, int]:
    """Map what `create_segment` made: the memory and its `slot_bytes`.

    After the header come one line per rank (see `Peers`), then per rank a slot and a staging area.

    Raises:
        UsageError: If the descriptor is something else, or made for another number of ranks.
    """
    try:
        header = os.pread(fd, _HEADER.size, 0)
    except OSError as error:
        raise UsageError(
            f"descriptor {fd} is not a segment of create_segment: {error.strerror} (see pass_fds)"
        ) from error
    magic, made_for, slot_bytes = _HEADER.unpack(header.ljust(_HEADER.size, b"\0"))
    if magic != _MAGIC:
        raise UsageError(f"descriptor {fd} is not a segment of create_segment")
    if made_for != size:
        raise UsageError(f"the segment was made for {made_for} ranks, this group has {size}")
    return mmap.mmap(fd, 0, mmap.MAP_SHARED | mmap.MAP_POPULATE), slot_bytes


def _rounded(count: int) -> int:
    return -(-count // LINE_BYTES) * LINE_BYTES


def _no_room(size: int, slot_bytes: int, wanted: int, reason: str) -> str:
    each = human_bytes(slot_bytes + STAGING_BYTES)
    return f"{size} ranks x {each} of shared memory are {human_bytes(wanted)}, but {reason}: use fewer GMIs"


class Peers:
    """The ranks of a group: each has one line of shared memory with the count of its arrivals and its pid.

    Counts only grow, so that a rank which is already at its next barrier has visibly passed this one.

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
        self._places = [peer * _LINE_WORDS for peer in self._others]
        self._own = rank * _LINE_WORDS
        self._count = 0
        self._poll = poll()
        self._watched: dict[int, int] = {}  # pidfd -> rank
        self._dead: set[int] = set()
        self._words[self._own + 1] = os.getpid()
        self.meet()
        for peer in self._others:
            self._watch(peer)

    def arrive(self) -> None:
        """Count one more arrival of this rank."""
        self._count += 1
        self._words[self._own] = self._count

    def meet(self) -> None:
        """Arrive and wait for all: a spinning barrier that gives way when it takes long.

        Raises:
            PeerDiedError: If a rank that is waited for has ended.
            PeerSilentError: If one has not arrived within `hang_s`.
        """
        self.arrive()
        words, count = self._words, self._count
        for place in self._places:
            for _ in range(_SPINS):
                if words[place] >= count:
                    break
            else:
                self._meet_patiently()
                return

    def _meet_patiently(self) -> None:
        started = time.perf_counter()
        while self.late():
            if time.perf_counter() - started < _YIELD_S:
                os.sched_yield()
            else:
                self.check(started, _NAP_MS)

    def late(self) -> list[int]:
        """The ranks that have arrived less often than this one."""
        return [peer for peer in self._others if self._words[peer * _LINE_WORDS] < self._count]

    def check(self, started: float, nap_ms: int = 0) -> None:
        """Look once whether it makes sense to go on waiting for the late ranks.

        Args:
            started: `time.perf_counter()` when the waiting began.
            nap_ms: Milliseconds to sleep meanwhile; a death ends the sleep.

        Raises:
            PeerDiedError: If a late rank has ended.
            PeerSilentError: If `hang_s` have passed.
        """
        self._notice_deaths(nap_ms)
        late = self.late()
        if dead := [peer for peer in late if peer in self._dead]:
            raise PeerDiedError(f"{self._named(dead)} ended while rank {self._rank} waited for it: its log says why")
        if time.perf_counter() - started > self._hang_s:
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
        return self._words[peer * _LINE_WORDS + 1]

    def _named(self, peers: list[int]) -> str:
        pids = {peer: self._pid(peer) or "not yet here" for peer in peers}
        return ", ".join(f"rank {peer} (process {pid})" for peer, pid in pids.items())
