"""Who a process is among those of its group."""

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import chain

from gmi_drl.errors import UsageError
from gmi_drl.layout.mapping import MappingList, check_mapping, size_of


class Keepalives:
    """By what a process that waits shows those who wait for it that it is not silent; see `gmi_drl.layout.waits`.

    Attributes:
        tell: What tells others; groups add what tells their ranks.
        heard: What is done when a wait for other ranks begins anew because they have told so.
    """

    def __init__(self) -> None:
        self.send: list[Callable[[], object]] = []
        self.received: list[Callable[[], object]] = []


@dataclass(frozen=True)
class Membership:
    """A process as one rank of a group: where all of them are, and how it waits for the others.

    Args:
        rank: This process, from 0.
        mapping: The ranks of each device, e.g. `[[0, 1], [2, 3]]`.
        names: What errors call the ranks, in rank order: "GMI 3". Without any they are ranks.
        hang_s: Seconds after which a peer that lives counts as silent.
        spins: Whether it may spin before it offers its core to others: only where each rank has cores of its own.
        keepalives: Of this process.

    Raises:
        UsageError: If the mapping does not have the ranks 0 to n - 1, or this one, or as many as names.
    """

    rank: int
    mapping: MappingList
    names: tuple[str, ...] = ()
    hang_s: float = 300.0
    spins: bool = True
    keepalives: Keepalives = field(default_factory=Keepalives, compare=False, repr=False)

    def __post_init__(self) -> None:
        check_mapping(self.mapping)
        ranks = sorted(chain.from_iterable(self.mapping))
        if ranks != list(range(self.size)):
            raise UsageError(f"a group of {self.size} has ranks 0 to {self.size - 1}, each on a device, not {ranks}")
        if self.rank not in ranks:
            raise UsageError(f"rank {self.rank} is not in a group of {self.size}")
        if len(self.names) not in (0, self.size):
            raise UsageError(f"a group of {self.size} has as many names or none, not {len(self.names)}")

    @property
    def size(self) -> int:
        """Processes in the group."""
        return size_of(self.mapping)

    @property
    def neighbours(self) -> tuple[int, ...]:
        """The ranks on the device of this one, itself among them, in the mapping's order."""
        return next(tuple(ranks) for ranks in self.mapping if self.rank in ranks)

    def name(self, rank: int) -> str:
        """What errors call a rank."""
        return self.names[rank] if self.names else f"rank {rank}"
