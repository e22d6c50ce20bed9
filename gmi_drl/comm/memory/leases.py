"""The migrator: which trainer a rollout goes to, and in which place of its memory it is made (paper section 4.2)."""

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import NamedTuple

from gmi_drl.comm.memory.fence import order_loads, publish
from gmi_drl.comm.memory.segment import LINE_BYTES
from gmi_drl.comm.memory.shared_lock import SharedLock

LEASED = 0
"""The word of a trainer's table that changes under the lock: how many places were leased."""

GIVEN_BACK = LINE_BYTES // 8
"""The word of a trainer's table that only the trainer writes: the places below this number are free again."""

OWNERS = 3 * GIVEN_BACK
"""From here on a trainer's table has one word for each place: who has leased it."""

NOBODY = 0
"""The owner of a place that was given up."""

ROLLOUTS_OF_ONE = 2**32
"""So many numbers has each process of an agent for its rollouts; those of the process that succeeds it come after."""

_AGENTS = 2**16


class Lease(NamedTuple):
    """Where a rollout goes: a trainer, by rank, and the number of its place, from 0 and without end."""

    trainer: int
    place: int


def owner_word(agent: int, rollout: int) -> int:
    """An agent, by its place in the sizes, and the number of its rollout, from 0, as one word: never `NOBODY`."""
    return rollout * _AGENTS + agent + 1


def agent_of(owner: int) -> int:
    """Whose word that is; -1 is `NOBODY`."""
    return owner % _AGENTS - 1


def process_of(owner: int) -> int:
    """Of which process of its agent that word is, from 0."""
    return owner // _AGENTS // ROLLOUTS_OF_ONE


class Leases:
    """The places of all trainers, as any process sees and takes them.

    What changes under the lock changes by one word last, so that a process may be killed between any two stores: a
    place is a new agent's when `LEASED` counts it, one that was given up when its owner's word is there.

    Args:
        tables: The shared words of each trainer, by rank, zeroed at first: `LEASED`, `GIVEN_BACK`, `OWNERS`.
        places: How many each trainer has.
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
        """Take a place: one that was given up, if any, since a batch waits for it; else the next one of a trainer.

        It is that with the least workload: places that were leased and not yet given back.

        Args:
            agent: By its place in the sizes.
            rollout: Its number.
            trainers: Whose place it may be, by rank; None: of all.

        Returns:
            None if none is free, or if experience has ended.
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
        """Whose word is on a place; `NOBODY` also where it is not leased yet."""
        table = self._tables[trainer]
        if place >= table[LEASED]:
            return NOBODY
        order_loads()
        return table[OWNERS + place % self._places]

    def leased(self, trainer: int) -> int:
        """Places of a trainer that were leased so far."""
        return int(self._tables[trainer][LEASED])

    def give_up(self, trainer: int, places: Iterable[int]) -> None:
        """Let others lease places whose owner has ended. The trainer does it, of its own."""
        table = self._tables[trainer]
        with self._lock.held():
            for place in places:
                table[OWNERS + place % self._places] = NOBODY

    def give_back(self, trainer: int, places: int) -> None:
        """Free all places of a trainer below a number, for others that stand for later ones. The trainer does it."""
        publish(self._tables[trainer], GIVEN_BACK, places)

    def end(self) -> None:
        """Lease no more."""
        with self._lock.held():
            self._end()

    def _given_up(self, table: memoryview) -> int | None:
        """The first one: whoever leases a place has written its owner before it counts."""
        leased = range(table[GIVEN_BACK], table[LEASED])
        return next((place for place in leased if table[OWNERS + place % self._places] == NOBODY), None)
