"""The server's end of an inference stream: a policy worker answers many clients in batches."""

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from itertools import chain
from types import MappingProxyType

import numpy as np
from torch import Tensor

from gmi_drl.comm.links.framing import FramedConnection
from gmi_drl.comm.memory.fence import fence, order_loads
from gmi_drl.comm.memory.notify import Notifier
from gmi_drl.comm.streams.batching import requests_due
from gmi_drl.comm.streams.far_clients import ClientChanges, FarClients
from gmi_drl.comm.streams.slots import (
    ANSWER_NS,
    ANSWER_ROWS,
    ANSWER_VERSION,
    ANSWERED,
    FETCHED_NS,
    HAS_LEFT,
    POSTED,
    PROCESSES,
    SERVER_PROCESSES,
    SLOT_WORDS,
    VERSION,
    WAITED_NS,
    WHAT,
    StreamMemory,
)
from gmi_drl.errors import GmiError, PeerDiedError, PeerSilentError

_MANY = 32  # slots beyond which numpy is faster than a loop
_LEAST_SLEEP_S = 1e-3  # what poll can sleep
_PER_S = 1e9


class StreamServer:
    """Answers the requests of its clients, of which each member has one under way. One thread uses it.

    Clients on other hosts connect to a successor when they wait for an answer, and not to leave. So a successor
    cannot tell who has left from who is still on the way: it waits `patience` times `hang_s` for these, and `hang_s`
    once another has left.

    Args:
        memory: Of the stream.
        notifier: Of this GMI.
        wait_s: The most that a request waits for others of its batch. In the last millisecond of it this process looks
            without sleeping, if it has a `spin_s`.
        most_rows: The most rows of a batch; None: no limit.
        spin_s: Seconds of looking for requests before it sleeps; 0 unless clients and server have cores of their own.
        patience: How many times `hang_s` it waits for a request; see `gmi_drl.layout.waits`.
        progress: A wait for requests starts again whenever this value changes.
        awaits_successors: Whether ended clients may be replaced: if none is left, it waits `hang_s` for a successor.
        predecessors: How many processes were this server before, and have ended.
        far: The connections of clients on other hosts, by id, None of one that comes later; this object owns them.
        changes: See `FarClients`.

    Attributes:
        wait_s: Seconds waited so far for requests, without those that a batch waited for more of them.
    """

    def __init__(
        self,
        memory: StreamMemory,
        notifier: Notifier,
        *,
        wait_s: float,
        most_rows: int | None = None,
        spin_s: float = 0.0,
        patience: float = 1,
        progress: Callable[[], object] = lambda: 0,
        awaits_successors: bool = False,
        predecessors: int = 0,
        far: Mapping[int, FramedConnection | None] = MappingProxyType({}),
        changes: ClientChanges | None = None,
    ) -> None:
        self.sizes, self.wait_s = memory.sizes, 0.0
        self._words, self._notifier = memory.words, notifier
        self._wait_s, self._spin_s, self._patience, self._progress = wait_s, spin_s, patience, progress
        self._awaits_successors, self._is_successor = awaits_successors, predecessors > 0
        self._clients = list(self.sizes.clients_of(notifier.own))
        slots = list(chain.from_iterable(map(self.sizes.slots_of, self._clients)))
        self._lines = [slot * SLOT_WORDS for slot in slots]
        self._owners = [client for client in self._clients for _ in range(self.sizes.members)]
        self._numbers = [(slot, self._lines[slot] + POSTED, self._lines[slot] + ANSWERED) for slot in range(len(slots))]
        self.most = len(slots) if most_rows is None else min(len(slots), max(1, most_rows // self.sizes.rows))
        """The most requests of a batch."""
        self._taken: dict[int, int] = {}  # the numbers of the last batch's requests, by slot
        self._table = memory.table[slots[0] : slots[-1] + 1]  # a server's slots are consecutive
        self._turn = 0
        self.requests: list[dict[str, Tensor]] = [memory.request(slot) for slot in slots]
        """The tensors of each slot's request. Slots of a server count from 0."""
        self.slots = memory.slots[slots[0] * self.sizes.slot_bytes : (slots[-1] + 1) * self.sizes.slot_bytes]
        """Their memory, uint8: whole pages, which CUDA can register."""
        self.answers: list[dict[str, Tensor]] = [memory.answer(slot) for slot in slots]
        self._states = self._table[:: self.sizes.members, PROCESSES : HAS_LEFT + 1]  # words of the clients
        self._seen_states: tuple[bytes, int] = b"", 0  # these, and the changes of those elsewhere, at the last look
        self._processes = [self._word(client, PROCESSES) for client in range(len(self._clients))]
        self._ended: set[int] = set()
        self._left = 0
        for line in self._lines:  # before connections are taken, by which this is not sent
            self._words[line + SERVER_PROCESSES] = predecessors + 1
        self._far = FarClients(far, memory, notifier, changes) if far else None
        self._living = self._those_that_may_post(())
        """The clients, by id, that may still post."""
        for client in self._clients:
            self._tell(client)  # it may wait for this process

    def next_batch(self) -> Sequence[int]:
        """Wait for requests. Returns the slots of the next batch, to be answered before the next call.

        Returns:
            Nothing when clients have left, and none is there any more.

        Raises:
            PeerDiedError: If all clients have ended before they left, and none is awaited.
            PeerSilentError: If none of them has posted a request for some times `hang_s`, or no successor has come.
        """
        waiting = self._waiting()
        while True:
            if waiting and (due := self._collect(waiting)):
                self._turn = due[-1] + 1
                self._taken = {slot: self._words[self._lines[slot] + POSTED] for slot in due}
                order_loads()
                return due
            self._has_news()
            if self._living or (self._absent() and not self._left):
                began = time.perf_counter()
                waiting = self._await_request()
                self.wait_s += time.perf_counter() - began
            elif self._absent() and self._is_successor and self._has_more_soon():
                waiting = self._waiting()
            elif self._ended and not self._left:  # once one has left, no more is needed of the others either
                self._await_successor()
                waiting = self._waiting()
            else:
                return ()

    def what(self, slot: int) -> int:
        """What a slot's request asks."""
        return int(self._words[self._lines[slot] + WHAT])

    def version_wanted(self, slots: Sequence[int]) -> int:
        """The version of the policy by which these requests can be answered at the earliest."""
        return max(self._words[self._lines[slot] + VERSION] for slot in slots)

    def refuse_latest(self, slots: Sequence[int]) -> None:
        """Drop those clients of the last batch that want its latest version, because nobody has published it.

        The other requests of the batch stay open.

        Raises:
            GmiError: If such a client is on this host.
        """
        version = self.version_wanted(slots)
        latest = [slot for slot in slots if self._words[self._lines[slot] + VERSION] == version]
        self.refuse(latest, f"it asked for version {version} of the policy, which trainers have not published")

    def refuse(self, slots: Sequence[int], why: str) -> None:
        """Drop the clients of these requests of the last batch, which nobody can answer.

        The other requests of the batch stay open.

        Args:
            slots: Of the requests.
            why: What was wrong with them: "it asked for ...".

        Raises:
            GmiError: If such a client is on this host.
        """
        for client in dict.fromkeys(self._owners[slot] for slot in slots):
            is_far = self._far is not None and client in self._far
            who = f"GMI {client}{' on another host' if is_far else ''}"
            error = f"{who}: {why}"
            if self._far is None or not is_far:
                raise GmiError(error)
            self._far.refuse(client, error)
            for slot, posted, answered in self._numbers:
                if self._owners[slot] == client:
                    self._words[answered] = self._words[posted]

    def answer(self, version: int, fetched_s: float = 0.0) -> None:
        """Announce what was written into the `answers` of the last batch.

        Args:
            version: Of the policy that gave them.
            fetched_s: Seconds that this process has waited so far for versions.
        """
        words, now, rows = self._words, time.monotonic_ns(), len(self._taken) * self.sizes.rows
        waited, fetched = int(self.wait_s * _PER_S), int(fetched_s * _PER_S)
        for slot in self._taken:
            line = self._lines[slot]
            words[line + ANSWER_VERSION], words[line + ANSWER_ROWS], words[line + ANSWER_NS] = version, rows, now
            words[line + WAITED_NS], words[line + FETCHED_NS] = waited, fetched
        fence()
        for slot, number in self._taken.items():
            words[self._lines[slot] + ANSWERED] = number
        for client in {self._owners[slot] for slot in self._taken}:
            self._tell(client)

    def close(self) -> None:
        """Stop watching the clients."""
        if self._far:
            self._far.close()
        self._notifier.close()

    def _tell(self, client: int) -> None:
        """Wake a client, or send it what was written into its slots."""
        if self._far and client in self._far:
            self._far.send(client)
        else:
            self._notifier.notify(client)

    def _waiting(self) -> list[int]:
        """Slots with open requests; first those that come after the slots of the last batch."""
        if self._far:
            self._far.receive()
        if len(self._numbers) > _MANY:
            slots: list[int] = np.flatnonzero(self._table[:, POSTED] != self._table[:, ANSWERED]).tolist()
        else:
            words = self._words
            slots = [slot for slot, posted, answered in self._numbers if words[posted] != words[answered]]
        if not self._turn or not slots or slots[0] >= self._turn:
            return slots
        later = [slot for slot in slots if slot >= self._turn]
        return later + slots[: len(slots) - len(later)]

    def _collect(self, waiting: Sequence[int]) -> Sequence[int]:
        """Wait until a batch with these requests is due. Returns its slots; none if their client has come anew."""
        if len(waiting) == len(self._numbers) == self.most:
            return waiting
        began, waited_s = time.perf_counter(), 0.0
        due: Sequence[int] = ()
        while waiting and not (due := self._due(waiting, waited_s)):
            left_s = self._wait_s - waited_s
            if left_s >= _LEAST_SLEEP_S:
                self._notifier.wait_at_most(partial(self._has_more, len(waiting)), left_s)
            elif not self._spin_s:  # a client may need the core
                self._notifier.nap(left_s)
            waiting, waited_s = self._waiting(), time.perf_counter() - began
        return due

    def _due(self, waiting: Sequence[int], waited_s: float) -> Sequence[int]:
        return requests_due(
            waiting,
            members=self.sizes.members,
            living=len(self._living),
            most=self.most,
            waited_s=waited_s,
            wait_s=self._wait_s,
        )

    def _has_more(self, count: int) -> bool:
        """Whether more than `count` requests are open, or fewer clients can post than before."""
        return len(self._waiting()) > count or self._has_news()

    def _await_request(self) -> list[int]:
        """Wait for a request, or news of the clients. Returns the slots with open requests."""
        until, waiting, absent = time.perf_counter() + self._spin_s, list[int](), len(self._absent())
        while self._spin_s and time.perf_counter() < until:
            if waiting := self._waiting():
                return waiting

        def has_come() -> bool:
            waiting[:] = self._waiting()
            return bool(waiting) or self._has_news() or len(self._absent()) != absent

        self._notifier.wait_for(
            has_come,
            self._living or sorted(self._absent()),
            "posted a request",
            self._patience,
            self._progress,
        )
        return waiting or self._waiting()  # what came before the news counts

    def _has_news(self) -> bool:
        """Note which clients have left, ended or been succeeded. Returns whether those that may post have changed."""
        states = self._states.tobytes(), self._far.changed if self._far else 0
        if states == self._seen_states and not self._notifier.seen_ended(self._living):
            return False
        self._seen_states = states
        left = {client for number, client in enumerate(self._clients) if self._word(number, HAS_LEFT)}
        for number, client in enumerate(self._clients):
            if (processes := self._word(number, PROCESSES)) != self._processes[number]:
                self._processes[number] = processes
                if processes > 1:
                    self._notifier.watch_successor(client)
        self._ended = set(self._notifier.seen_ended([client for client in self._clients if client not in left]))
        before = self._living, self._left
        self._living, self._left = self._those_that_may_post(left), len(left)
        return (self._living, self._left) != before

    def _those_that_may_post(self, left: Collection[int]) -> list[int]:
        gone = {*self._ended, *left, *self._absent()}
        return [client for client in self._clients if client not in gone]

    def _absent(self) -> Collection[int]:
        """The clients that come later."""
        return self._far.absent if self._far else ()

    def _await_successor(self) -> None:
        lost = ", ".join(f"GMI {client}" for client in sorted(self._ended))
        text = f"all actors of GMI {self._notifier.own} have left or ended ({lost})"
        if not self._awaits_successors:
            refused = "; ".join(self._far.refused.values()) if self._far else ""
            raise PeerDiedError(f"{text}: {refused or 'their logs say why'}")
        if not self._has_more_soon():
            raise PeerSilentError(f"{text}, and no successor has come for {self._notifier.hang_s:g} s (hang_s)")

    def _has_more_soon(self) -> bool:
        """Wait `hang_s` at most for a request, or a client that has come again. Returns whether there is one."""
        return self._notifier.wait_at_most(partial(self._has_more, 0), self._notifier.hang_s)

    def _word(self, client: int, word: int) -> int:
        return int(self._words[self._lines[client * self.sizes.members] + word])
