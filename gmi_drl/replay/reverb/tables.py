"""A table of Reverb's interface: what it is, until a server has made it."""

import dataclasses
from collections.abc import Sequence
from typing import Any, Self

from gmi_drl.replay import limiters, table
from gmi_drl.replay.extensions import Extension
from gmi_drl.replay.reverb.errors import in_their_words
from gmi_drl.replay.reverb.infos import Facts, TableInfo, facts_of, info_of
from gmi_drl.replay.reverb.nest import Nest
from gmi_drl.replay.reverb.rate_limiters import Queue, RateLimiter, Stack
from gmi_drl.replay.reverb.selectors import Fifo, Lifo, Selector, fresh
from gmi_drl.replay.reverb.specs import specs_of, to_json
from gmi_drl.replay.storage import Storage


class Table:
    """Items that reference steps, what samples and removes them, and how fast (Reverb, section 3.2).

    Args:
        name: For clients.
        sampler: Selects what is sampled.
        remover: Selects what is removed when the table is full.
        max_size: Items.
        rate_limiter: When inserts and samples are allowed.
        max_times_sampled: An item is deleted after so many samples; below 1 means no limit.
        extensions: Of `gmi_drl.replay.Extension`; they run within each operation.
        signature: A nest of specs of the trajectories; None if they may be anything.

    Raises:
        ValueError: if the name is empty, or sizes do not go together.
    """

    def __init__(
        self,
        name: str,
        sampler: Selector,
        remover: Selector,
        max_size: int,
        rate_limiter: RateLimiter,
        max_times_sampled: int = 0,
        extensions: Sequence[Extension] = (),
        signature: Nest = None,
    ) -> None:
        if not name:
            raise ValueError("name must be nonempty")
        if max_size < 1:
            raise ValueError(f"max_size ({max_size}) must be a positive integer")
        self.name, self.max_size, self.max_times_sampled = name, int(max_size), max(0, int(max_times_sampled))
        self.sampler, self.remover, self.rate_limiter = sampler, remover, rate_limiter
        self.extensions, self.signature = tuple(extensions), None if signature is None else specs_of(signature)
        self._limiter: limiters.RateLimiter = rate_limiter.make()
        self._made: table.Table | None = None

    @classmethod
    def queue(cls, name: str, max_size: int, extensions: Sequence[Extension] = (), signature: Nest = None) -> Self:
        """A table whose items are sampled once, in the order of their inserts, which wait while it is full."""
        return cls(name, Fifo(), Fifo(), max_size, Queue(max_size), 1, extensions, signature)

    @classmethod
    def stack(cls, name: str, max_size: int, extensions: Sequence[Extension] = (), signature: Nest = None) -> Self:
        """A table whose items are sampled once, the newest first, and whose inserts wait while it is full."""
        return cls(name, Lifo(), Lifo(), max_size, Stack(max_size), 1, extensions, signature)

    def replace(self, **changes: Any) -> "Table":
        """An empty table with other arguments of `Table`; those that are None, or not given, stay."""
        names = (
            "name",
            "sampler",
            "remover",
            "max_size",
            "rate_limiter",
            "max_times_sampled",
            "extensions",
            "signature",
        )
        if unknown := sorted(set(changes) - set(names)):
            raise TypeError(f"a table has no {', '.join(unknown)}; it has {', '.join(names)}")
        given = {name: value for name, value in changes.items() if value is not None}
        return Table(**{name: getattr(self, name) for name in names} | given)

    @property
    def info(self) -> TableInfo:
        """Settings and counts."""
        if self._made is not None:
            return info_of(self.name, self._made.info())
        told: dict[str, Any] = dict.fromkeys(("items", "inserts", "samples", "unique_samples"), 0)
        told |= {"max_size": self.max_size, "waiting_inserts": 0, "waiting_samples": 0}
        return info_of(self.name, told | {Facts.__name__: self._facts() | {"episodes": 0, "ended_episodes": 0}})

    def can_sample(self, num_samples: int) -> bool:
        """Whether the limiter allows so many samples now."""
        return self._limiter.can_sample(num_samples)

    def can_insert(self, num_inserts: int) -> bool:
        """Whether the limiter allows so many inserts now."""
        return self._limiter.can_insert(num_inserts)

    def make(self, storage: Storage) -> table.Table:
        """The table in the memory of a server.

        Raises:
            ValueError: if it has one already, or sizes do not go together.
        """
        if self._made is not None:
            raise ValueError(f"table {self.name} has a server already: make another one with replace()")
        with in_their_words():
            self._made = table.Table(
                self.name,
                storage.signature,
                sampler=fresh(self.sampler),
                remover=fresh(self.remover),
                max_size=self.max_size,
                limiter=self._limiter,
                max_times_sampled=self.max_times_sampled,
                extensions=(*self.extensions, Facts(self._facts())),
                storage=storage,
            )
        return self._made

    def unmake(self) -> None:
        """Its server could not begin: it is as new again."""
        self._made, self._limiter = None, self.rate_limiter.make()

    def _facts(self) -> dict[str, Any]:
        signature = None if self.signature is None else to_json(self.signature)
        return facts_of(self.sampler, self.remover, self.max_times_sampled, self.rate_limiter, signature)

    def __repr__(self) -> str:
        return f"Table(name={self.name!r}, {dataclasses.asdict(self.info)})"
