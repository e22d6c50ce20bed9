"""Batches, items or single steps of replay servers for `torch.utils.data.DataLoader` (Reverb, section 3.8)."""

from collections.abc import Iterator, Sequence
from typing import Literal

from torch import Tensor
from torch.utils.data import IterableDataset

from gmi_drl.errors import UsageError
from gmi_drl.replay.client.client import Client
from gmi_drl.replay.client.connection import Shared
from gmi_drl.replay.client.samples import ServerBatch
from gmi_drl.replay.limiters import WAIT_S

Sampled = tuple[dict[str, Tensor], dict[str, Tensor]]
"""Fields by name; and of each item `key`, `probability`, `priority` and `times_sampled`."""


class ServerDataset(IterableDataset[Sampled]):
    """Samples of a table, without end: until its limiter allows none for `timeout_s`.

    Each iterator has connections of its own, so each worker of a `DataLoader` has, too. The server chooses what each
    gets; nothing is sent twice by itself.

    Args:
        address: As of `Client`.
        table: By name.
        of: What it yields. `batches`: fields `[B, T, *shape]`, T steps of the longest item, with zeros behind shorter
            ones: for `DataLoader(batch_size=None)`. `items`: `[T, *shape]` with the item's own steps. `steps`:
            `[*shape]`, each step of an item by itself, with what is known of the item.
        batch: B: items that the server is asked for at once, of all three.
        token: Of the servers.
        shared: As of `Client`.
        columns: Of the storage; None for all. For `items` and `steps` they have stretches alike.
        max_in_flight: Samples that are asked for ahead.
        timeout_s: Seconds that a batch may wait for the limiter, a day at most; then the iteration ends.

    Raises:
        UsageError: where it is iterated, if there is no such table or column, items have unlike stretches, or
            `timeout_s` is below 0 or above a day.
    """

    def __init__(
        self,
        address: str | Sequence[str],
        table: str,
        *,
        of: Literal["batches", "items", "steps"] = "batches",
        batch: int = 256,
        token: str | None = None,
        shared: Shared = "auto",
        columns: tuple[str, ...] | None = None,
        max_in_flight: int = 1024,
        timeout_s: float = WAIT_S,
    ) -> None:
        if of not in _SPLIT:
            raise UsageError(f"a dataset is of {', '.join(_SPLIT)}, not {of!r}")
        self._client: tuple[str | Sequence[str], str | None, Shared] = address, token, shared
        self._table, self._of, self._batch = table, of, batch
        self._columns, self._ahead, self._timeout_s = columns, max_in_flight, timeout_s

    def __iter__(self) -> Iterator[Sampled]:
        """Connect, and sample."""
        address, token, shared = self._client
        with Client(address, token, shared) as client:
            sampler = client.sampler(
                self._table,
                self._batch,
                max_in_flight=self._ahead,
                columns=self._columns,
                timeout_s=self._timeout_s,
            )
            with sampler:
                for batch in sampler:
                    yield from _SPLIT[self._of](batch)


def _whole(batch: ServerBatch) -> Iterator[Sampled]:
    yield batch.fields, _told(batch)


def _items(batch: ServerBatch) -> Iterator[Sampled]:
    told, lengths = _told(batch), _lengths(batch)
    for place, length in enumerate(lengths):
        fields = {name: value[place, :length] for name, value in batch.fields.items()}
        yield fields, {name: value[place] for name, value in told.items()}


def _steps(batch: ServerBatch) -> Iterator[Sampled]:
    for fields, told in _items(batch):
        for step in range(len(next(iter(fields.values())))):
            yield {name: value[step] for name, value in fields.items()}, told


_SPLIT = {"batches": _whole, "items": _items, "steps": _steps}


def _told(batch: ServerBatch) -> dict[str, Tensor]:
    return {
        "key": batch.keys,
        "probability": batch.probabilities,
        "priority": batch.priorities,
        "times_sampled": batch.times_sampled,
    }


def _lengths(batch: ServerBatch) -> list[int]:
    """Steps of each item, which are those of each column.

    Raises:
        UsageError: if columns have stretches of other lengths.
    """
    of_columns = batch.lengths
    first = of_columns[next(iter(batch.rows.words))]
    if any(not first.equal(of_columns[name]) for name in batch.rows.words):
        raise UsageError("the columns of an item have unlike stretches: take batches, or columns that go together")
    lengths: list[int] = first.tolist()
    return lengths
