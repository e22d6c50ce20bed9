"""The sizes of an inference stream. Pure data."""

import json
from dataclasses import asdict, dataclass
from functools import cached_property
from itertools import accumulate, chain

from gmi_drl.comm.memory.segment import in_pages
from gmi_drl.errors import UsageError
from gmi_drl.layout.experience import LINE_BYTES, Kind


@dataclass(frozen=True)
class StreamSizes:
    """What all ends of an inference stream must agree on.

    Args:
        request: The tensors of a request, each with its shape, `[N, ...]` for N environments.
        answer: The tensors of an answer.
        rows: N, the rows that a request adds to a batch.
        servers: The ids of the GMIs that answer. The first makes the memory.
        clients: For each server, the ids of the GMIs that it answers.
        members: Requests that a client can have under way: the members of its ring.

    Raises:
        UsageError: If a number is too small, or a GMI is there twice.
    """

    request: tuple[Kind, ...]
    answer: tuple[Kind, ...]
    rows: int
    servers: tuple[int, ...]
    clients: tuple[tuple[int, ...], ...]
    members: int = 1

    def __post_init__(self) -> None:
        if min(self.rows, self.members, len(self.request), len(self.answer)) < 1:
            raise UsageError("a stream needs rows, members, and tensors of requests and answers, one at least")
        ends = [*self.servers, *self.all_clients]
        if len(set(ends)) != len(ends) or not self.servers or len(self.clients) != len(self.servers):
            raise UsageError(f"a stream joins GMIs, each once: servers {self.servers} and clients {self.clients}")
        if not all(self.clients):
            raise UsageError(f"each server of a stream needs a client, these have {self.clients}")

    @cached_property
    def all_clients(self) -> tuple[int, ...]:
        """The clients of all servers. The index of a client, times `members`, is its first slot."""
        return tuple(chain.from_iterable(self.clients))

    @property
    def slots(self) -> int:
        """One for each client and member of its ring."""
        return len(self.all_clients) * self.members

    def slots_of(self, client: int) -> range:
        """The slots of a client, by member."""
        first = self.all_clients.index(client) * self.members
        return range(first, first + self.members)

    def server_of(self, client: int) -> int:
        """The server that answers a client."""
        return next(server for server, ours in zip(self.servers, self.clients, strict=True) if client in ours)

    def clients_of(self, server: int) -> tuple[int, ...]:
        """The clients that a server answers."""
        return self.clients[self.servers.index(server)]

    @cached_property
    def offsets(self) -> tuple[int, ...]:
        """Where the tensors of a slot begin, those of the request first, each at a line; then the end."""
        kinds = (*self.request, *self.answer)
        return tuple(accumulate((-(-kind.nbytes // LINE_BYTES) * LINE_BYTES for kind in kinds), initial=0))

    @property
    def slot_bytes(self) -> int:
        """Bytes of a slot's tensors, in whole pages."""
        return in_pages(self.offsets[-1])

    @cached_property
    def text(self) -> str:
        """The sizes as JSON; equal sizes have equal texts."""
        return json.dumps(asdict(self))

    def difference(self, text: str) -> str | None:
        """How another process's `text` differs from this one's, its numbers first; None if it does not."""
        theirs, ours = json.loads(text), json.loads(self.text)
        return (
            ", ".join(f"{name} {theirs[name]} and {ours[name]}" for name in ours if theirs[name] != ours[name]) or None
        )
