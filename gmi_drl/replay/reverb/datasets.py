"""Samples of a table as datasets of torch (Reverb, section 3.9)."""

import itertools
from collections.abc import Iterator, Sequence
from typing import Any, Self

import numpy as np
import torch
from torch.utils.data import IterableDataset, get_worker_info

from gmi_drl.replay.client.samples import ServerBatch
from gmi_drl.replay.reverb.client import Client
from gmi_drl.replay.reverb.errors import in_their_words
from gmi_drl.replay.reverb.nest import Nest, flatten, map_structure, unflatten_as
from gmi_drl.replay.reverb.samples import Array, ReplaySample, SampleInfo, columns_of, infos_of, items_of, steps_of
from gmi_drl.replay.reverb.specs import TensorSpec
from gmi_drl.replay.words import LONGEST_WAIT_S

UNLIMITED = -1


class TrajectoryDataset(IterableDataset[ReplaySample]):
    """Samples items without end, or until the limiter allows none in time. Each iterator has its own connections.

    Arrays are tensors. Each worker of a `DataLoader` has its own iterator, and its part of `max_samples`.

    Args:
        server_address: `host:port`.
        table: By name.
        dtypes: A nest of the types of the columns: data gets its structure, and items of other types are refused.
        shapes: A nest of their shapes, with None for any size.
        max_in_flight_samples_per_worker: Samples that each connection is asked for ahead.
        num_workers_per_iterator: Connections; -1 means 1, which keeps the order of the server.
        max_samples_per_stream: Has no effect: connections stay. -1 or 1 at least.
        rate_limiter_timeout_ms: Milliseconds that a sample may wait for the limiter; then the iteration ends. -1 means
            no limit.
        max_samples: After so many the iteration ends, and no more are asked for; -1 means no limit.
        flexible_batch_size: Items that an answer may have at most; -1 means as many as fit.

    Raises:
        ValueError: if a number is out of range, or the structures differ.
    """

    def __init__(
        self,
        server_address: str,
        table: str,
        dtypes: Nest,
        shapes: Nest,
        max_in_flight_samples_per_worker: int,
        num_workers_per_iterator: int = UNLIMITED,
        max_samples_per_stream: int = UNLIMITED,
        rate_limiter_timeout_ms: int = UNLIMITED,
        max_samples: int = UNLIMITED,
        flexible_batch_size: int = UNLIMITED,
    ) -> None:
        if max_in_flight_samples_per_worker < 1:
            text = f"max_in_flight_samples_per_worker ({max_in_flight_samples_per_worker})"
            raise ValueError(f"{text} must be a positive integer")
        for name, number in (
            ("num_workers_per_iterator", num_workers_per_iterator),
            ("max_samples_per_stream", max_samples_per_stream),
            ("max_samples", max_samples),
            ("flexible_batch_size", flexible_batch_size),
        ):
            if number < 1 and number != UNLIMITED:
                raise ValueError(f"{name} ({number}) must be a positive integer or -1")
        if rate_limiter_timeout_ms < UNLIMITED:
            raise ValueError(f"rate_limiter_timeout_ms ({rate_limiter_timeout_ms}) must be an integer >= -1")
        kinds = zip(_shapes(dtypes, shapes), flatten(dtypes), strict=True)
        self._structure, self._specs = dtypes, [TensorSpec(shape, dtype) for shape, dtype in kinds]
        self._server_address, self._table = server_address, table
        self._ahead, self._workers = max_in_flight_samples_per_worker, max(1, num_workers_per_iterator)
        timeout_s = LONGEST_WAIT_S if rate_limiter_timeout_ms < 0 else rate_limiter_timeout_ms / 1000
        self._timeout_s = min(timeout_s, LONGEST_WAIT_S)
        self._most = None if max_samples < 0 else max_samples
        self._at_once = flexible_batch_size if flexible_batch_size > 0 else max(1, self._ahead // 2)

    @classmethod
    def from_table_signature(
        cls,
        server_address: str,
        table: str,
        max_in_flight_samples_per_worker: int,
        num_workers_per_iterator: int = UNLIMITED,
        max_samples_per_stream: int = UNLIMITED,
        rate_limiter_timeout_ms: int = UNLIMITED,
        get_signature_timeout_secs: int | None = None,
        max_samples: int = UNLIMITED,
        flexible_batch_size: int = UNLIMITED,
    ) -> Self:
        """A dataset whose types and shapes are those of the table's signature.

        Raises:
            ValueError: if there is no such table, or it has no signature.
            DeadlineExceededError: if the server does not tell in time.
        """
        infos = Client(server_address).server_info(get_signature_timeout_secs)
        if table not in infos:
            text = f"Server at {server_address} does not contain any table named {table}"
            raise ValueError(f"{text}. Found: {', '.join(sorted(infos))}.")
        if (signature := infos[table].signature) is None:
            raise ValueError(f"Table {table} at {server_address} does not have a signature.")
        return cls(
            server_address,
            table,
            map_structure(lambda spec: spec.dtype, signature),
            map_structure(lambda spec: spec.shape, signature),
            max_in_flight_samples_per_worker,
            num_workers_per_iterator,
            max_samples_per_stream,
            rate_limiter_timeout_ms,
            max_samples,
            flexible_batch_size,
        )

    def batch(self, size: int) -> "Batches":
        """A dataset of batches of this one: all arrays, also those of `info`, are `[size, ...]`.

        Raises:
            ValueError: if the size is below 1.
        """
        if size < 1:
            raise ValueError(f"a batch has 1 item at least, not {size}")
        return Batches(self, size)

    def __iter__(self) -> Iterator[ReplaySample]:
        for batch in self.batches(self._at_once, flexible=True):
            for info, columns in items_of(batch):
                yield ReplaySample(info, self.checked(columns))

    def batches(self, size: int, *, flexible: bool) -> Iterator[ServerBatch]:
        """Batches as our sampler has them, of `size` items, or up to as many."""
        worker, most = get_worker_info(), self._most
        if worker is not None and most is not None:
            most = most // worker.num_workers + (worker.id < most % worker.num_workers)
        options: dict[str, Any] = {"max_in_flight": self._ahead, "workers": self._workers, "most": most}
        client = Client(self._server_address)
        with client.sampler(self._table, size, timeout_s=self._timeout_s, flexible=flexible, **options) as sampler:
            while True:
                with in_their_words(RuntimeError):
                    batch = next(sampler, None)
                if batch is None:
                    return
                yield batch

    def checked(self, columns: Sequence[Array], axes: int = 0) -> Nest:
        """Data in the structure of the dataset, with tensors."""
        for number, (column, spec) in enumerate(zip(columns, self._specs, strict=True)):
            if not spec.takes(column.shape[axes:], column.dtype):
                text = f"column {number} of an item is {column.dtype}{list(column.shape[axes:])}"
                raise ValueError(f"table {self._table}: {text}, the dataset expects {spec}")
        return unflatten_as(self._structure, [tensor_of(column) for column in columns])


class TimestepDataset(TrajectoryDataset):
    """Samples items without end, and emits their steps one by one; shapes are those of a step. Else as above."""

    def __iter__(self) -> Iterator[ReplaySample]:
        for batch in self.batches(self._at_once, flexible=True):
            for info, steps in steps_of(batch):
                for columns in steps:
                    yield ReplaySample(info, self.checked(columns))


class Batches(IterableDataset[ReplaySample]):
    """Batches of a dataset, each in one piece. Where the iteration ends, the last one may have fewer items.

    Args:
        dataset: Of items.
        size: Items, or steps.
    """

    def __init__(self, dataset: TrajectoryDataset, size: int) -> None:
        self._dataset, self._size = dataset, size

    def __iter__(self) -> Iterator[ReplaySample]:
        if isinstance(self._dataset, TimestepDataset):
            yield from self._stacked()
            return
        parts, missing = list[ReplaySample](), self._size
        for batch in self._dataset.batches(self._size, flexible=True):  # the limiter need not allow all at once
            info = SampleInfo(*(tensor_of(numbers) for numbers in infos_of(batch)))
            part = ReplaySample(info, self._dataset.checked(columns_of(batch), axes=1))
            count = len(batch.records)
            if count >= missing:
                yield _joined([*parts, _cut(part, 0, missing)])
                parts, part, count, missing = [], _cut(part, missing, count), count - missing, self._size
            if count:
                parts.append(part)
                missing -= count
        if parts:
            yield _joined(parts)

    def _stacked(self) -> Iterator[ReplaySample]:
        """Steps, stacked one by one."""
        steps = iter(self._dataset)
        while waiting := list(itertools.islice(steps, self._size)):
            info = SampleInfo(
                *(torch.as_tensor(numbers) for numbers in zip(*(one.info for one in waiting), strict=True))
            )
            yield ReplaySample(info, map_structure(lambda *leaves: torch.stack(leaves), *(one.data for one in waiting)))


def _cut(part: ReplaySample, first: int, end: int) -> ReplaySample:
    """Some items of a part of a batch."""
    return map_structure(lambda leaf: leaf[first:end], part)  # type: ignore[no-any-return]


def _joined(parts: Sequence[ReplaySample]) -> ReplaySample:
    """The batch that these parts are.

    Raises:
        ValueError: if shapes differ, with all.
    """
    return parts[0] if len(parts) == 1 else map_structure(_leaf_of, *parts)


def _leaf_of(*leaves: Any) -> Any:
    if len(shapes := sorted({str(list(leaf.shape[1:])) for leaf in leaves})) != 1:
        raise ValueError(f"items of a batch differ in a column: {', '.join(shapes)}: take batches of 1")
    return torch.cat(leaves) if isinstance(leaves[0], torch.Tensor) else np.concatenate(leaves)


def tensor_of(array: Array) -> Any:
    """An array as a tensor, uint64 as int64; one of texts as it is."""
    if array.dtype.kind in "SU":
        return array
    array = np.require(array, requirements="C")
    return torch.from_numpy(array.view(np.int64) if array.dtype == np.uint64 else array)


def _shapes(dtypes: Nest, shapes: Nest) -> list[Sequence[int | None]]:
    """The shapes of the leaves of `dtypes`, in order; a shape is a list or tuple itself.

    Raises:
        ValueError: if the structures differ.
    """
    if not isinstance(dtypes, dict | list | tuple):
        return [tuple(shapes)]
    children = dtypes.values() if isinstance(dtypes, dict) else dtypes
    if isinstance(dtypes, dict) != isinstance(shapes, dict) or len(children) != len(shapes):
        raise ValueError(f"dtypes and shapes differ in their structure: {dtypes} and {shapes}")
    if isinstance(dtypes, dict):
        if dtypes.keys() != shapes.keys():
            raise ValueError(f"dtypes and shapes differ in their structure: {dtypes} and {shapes}")
        return [shape for key in sorted(dtypes) for shape in _shapes(dtypes[key], shapes[key])]
    return [shape for one, other in zip(dtypes, shapes, strict=True) for shape in _shapes(one, other)]
