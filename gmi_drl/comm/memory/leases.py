"""Leases of places in the trainers' memory: the migrator of the paper's section 4.2.

A place is room for one rollout. Places of a trainer have numbers from 0 without end; place p lies in slot
p % places of the trainer's memory.
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import NamedTuple

from gmi_drl.comm.memory.fence import order_loads, publish
from gmi_drl.comm.memory.segment import LINE_BYTES
from gmi_drl.comm.memory.shared_lock import SharedLock

LEASED = 0
"""The word of a trainer's table that changes under the lock: how many places were leased."""

GIVEN_BACK = LINE_BYTES // 8
"""The word of a trainer's table that only the trainer writes: places below this number are free again."""

OWNERS = 3 * GIVEN_BACK
"""From here on a trainer's table has one word for each slot: who has leased its place."""

NOBODY = 0
"""The owner of a place that was given up."""

ROLLOUTS_OF_ONE = 2**32
"""Rollout numbers of one process of an agent. The process that succeeds it uses the next 2^32 numbers."""

_AGENTS = 2**16


class Lease(NamedTuple):
    """Where a rollout goes: the trainer, by rank, and the number of its place."""

    trainer: int
    place: int


def owner_word(agent: int, rollout: int) -> int:
    """An agent, by its index in the sizes, and the number of its rollout, from 0, as one word; never `NOBODY`."""
    return rollout * _AGENTS + agent + 1


def agent_of(owner: int) -> int:
    """The agent in an owner's word, by its index; -1 for `NOBODY`."""
    return owner % _AGENTS - 1


def process_of(owner: int) -> int:
    """Which process of its agent an owner's word belongs to, from 0."""
    return owner // _AGENTS // ROLLOUTS_OF_ONE


class Leases:
    """Leases the places of all trainers, in any process that shares their tables.

    Each change under the lock takes effect by one last store, so a process may be killed between any two stores: a new
    place is leased when `LEASED` counts it, a place that was given up when its owner's word is written.

    Args:
        tables: The shared words of each trainer, by rank, zeroed at first: `LEASED`, `GIVEN_BACK`, `OWNERS`.
        places: How many slots each trainer has.
        lock: The one lock of all processes that lease.
        is_ended: Whether experience has ended, so that nothing is leased any more.
        end: Ends it for all processes.
    """

    def __init__(
        self,
        tables: Sequence[memoryview],
        places: int,
        lock: SharedLock,
        is_ended: Callable[[], bool],
        end: Callable[[], None],
    ) -> None:
        self._tables, self._places, self._lock = tables, places, lock
        self._is_ended, self._end = is_ended, end

    def lease(self, agent: int, rollout: int, trainers: Collection[int] | None = None) -> Lease | None:
        """Lease a place: the first one that was given up, because a batch waits for it, or else a new one.

        A new one comes from the trainer with the least workload: places that were leased and not given back.

        Args:
            agent: The agent, by its index in the sizes.
            rollout: The number of its rollout.
            trainers: The trainers, by rank, whose places it may get; None: all.

        Returns:
            None if no place is free, or if experience has ended.
        """
        with self._lock.held():
            if self._is_ended():
                return None
            owner = owner_word(agent, rollout)
            tables = {one: table for one, table in enumerate(self._tables) if trainers is None or one in trainers}
            for trainer, table in tables.items():
                if (place := self._given_up(table)) is not None:
                    table[OWNERS + place % self._places] = owner
                    return Lease(trainer, place)
            workloads = {one: table[LEASED] - table[GIVEN_BACK] for one, table in tables.items()}
            trainer = min(workloads, key=workloads.__getitem__, default=0)
            if not workloads or workloads[trainer] >= self._places:
                return None
            table = self._tables[trainer]
            place = table[LEASED]
            table[OWNERS + place % self._places] = owner
            publish(table, LEASED, place + 1)
            return Lease(trainer, place)

    def owner(self, trainer: int, place: int) -> int:
        """The owner's word of a place; `NOBODY` also if the place was not leased yet."""
        table = self._tables[trainer]
        if place >= table[LEASED]:
            return NOBODY
        order_loads()
        return table[OWNERS + place % self._places]

    def leased(self, trainer: int) -> int:
        """How many places of a trainer were leased so far."""
        return int(self._tables[trainer][LEASED])

    def give_up(self, trainer: int, places: Iterable[int]) -> None:
        """Let others lease places whose owner has ended. Only the trainer itself calls it."""
        table = self._tables[trainer]
        with self._lock.held():
            for place in places:
                table[OWNERS + place % self._places] = NOBODY

    def give_back(self, trainer: int, places: int) -> None:
        """Free all places of a trainer below `places`: their slots then hold later ones. Only that trainer calls it."""
        publish(self._tables[trainer], GIVEN_BACK, places)

    def end(self) -> None:
        """End experience: nothing is leased any more."""
        with self._lock.held():
            self._end()

    def _given_up(self, table: memoryview) -> int | None:
        """The first place that was given up. A place has its owner's word before `LEASED` counts it."""
        leased = range(table[GIVEN_BACK], table[LEASED])
        return next((place for place in leased if table[OWNERS + place % self._places] == NOBODY), None)
