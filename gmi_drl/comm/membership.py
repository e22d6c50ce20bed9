"""A process as one rank of a group."""

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import chain

from gmi_drl.errors import UsageError
from gmi_drl.layout.mapping import MappingList, check_mapping, size_of


class Keepalives:
    """How a waiting process shows the processes that wait for it that it is alive; see `gmi_drl.layout.waits`.

    Attributes:
        send: Called to send a keepalive; each group adds the function that sends one to its ranks.
        received: Called when a keepalive from another rank has restarted a wait.
    """

    def __init__(self) -> None:
        self.send: list[Callable[[], object]] = []
        self.received: list[Callable[[], object]] = []


@dataclass(frozen=True)
class Membership:
    """A process as one rank of a group: where all ranks are, and how this one waits for the others.

    Args:
        rank: This process, from 0.
        mapping: The ranks of each device, e.g. `[[0, 1], [2, 3]]`.
        names: The ranks' names in errors, in rank order: "GMI 3". Empty: "rank 3".
        hang_s: Seconds after which a living peer counts as silent.
        spins: Whether it may spin before it yields its core: only if each rank has cores of its own.
        keepalives: Of this process.
        predecessors: How many processes were this rank before, and have ended.

    Raises:
        UsageError: If the mapping does not have the ranks 0 to n - 1, or not this one, or the names are not n or none.
    """

    rank: int
    mapping: MappingList
    names: tuple[str, ...] = ()
    hang_s: float = 300.0
    spins: bool = True
    keepalives: Keepalives = field(default_factory=Keepalives, compare=False, repr=False)
    predecessors: int = 0

    def __post_init__(self) -> None:
        check_mapping(self.mapping)
        ranks = sorted(chain.from_iterable(self.mapping))
        if ranks != list(range(self.size)):
            raise UsageError(f"a group of {self.size} has ranks 0 to {self.size - 1}, each on a device, not {ranks}")
        if self.rank not in ranks:
            raise UsageError(f"rank {self.rank} is not in a group of {self.size}")
        if len(self.names) not in (0, self.size):
            raise UsageError(f"a group of {self.size} has one name for each rank or none, not {len(self.names)}")

    @property
    def size(self) -> int:
        """Processes in the group."""
        return size_of(self.mapping)

    @property
    def local_ranks(self) -> tuple[int, ...]:
        """The ranks on this rank's device, itself among them, in the mapping's order."""
        return next(tuple(ranks) for ranks in self.mapping if self.rank in ranks)

    def name(self, rank: int) -> str:
        """The name of a rank in errors."""
        return self.names[rank] if self.names else f"rank {rank}"
