"""What the clients of Reverb's interface get: items with what the table says of them."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from gmi_drl.replay.client.samples import ServerBatch
from gmi_drl.replay.items import KEY, LONGEST, PRIORITY, STRETCHES, TIMES
from gmi_drl.replay.reverb.layout import CELL_BYTES, Column, arrays_of, description_of
from gmi_drl.replay.reverb.layout import columns_of as described_columns_of

Array = np.ndarray[Any, np.dtype[Any]]


class SampleInfo(NamedTuple):
    """What a table says of a sampled item.

    Args:
        key: For `mutate_priorities`.
        probability: With which it was selected.
        table_size: Items that were there, before it was removed.
        priority: When it was sampled.
        times_sampled: With this time.
    """

    key: Any
    probability: Any
    table_size: Any
    priority: Any
    times_sampled: Any

    @classmethod
    def zeros(cls) -> "SampleInfo":
        """All numbers 0."""
        return cls(0, 0.0, 0, 0.0, 0)


class ReplaySample(NamedTuple):
    """A sampled item, or a step of one.

    Args:
        info: Of the item.
        data: Its columns: a list, or a nest where the structure is known.
    """

    info: SampleInfo
    data: Any


def items_of(batch: ServerBatch) -> Iterator[tuple[SampleInfo, list[Array]]]:
    """The items of a batch, one by one, each with its columns."""
    for info, columns, _ in _items(batch):
        yield info, columns


def steps_of(batch: ServerBatch) -> Iterator[tuple[SampleInfo, list[list[Array]]]]:
    """The items of a batch, one by one, each as its steps, which have an array for each column.

    Raises:
        ValueError: if columns have different lengths, or one was squeezed and has none.
    """
    for info, columns, is_squeezed in _items(batch):
        count = 0 if is_squeezed else len(columns[0])
        if is_squeezed or any(len(column) != count for column in columns):
            raise ValueError("Can't split non timestep trajectory into timesteps.")
        yield info, [[column[step, ...] for column in columns] for step in range(count)]


def columns_of(batch: ServerBatch) -> list[Array]:
    """The columns of all items at once, `[B, T, *shape]`.

    Raises:
        ValueError: if shapes, types or the number of columns differ, with both.
    """
    rows, sizes = _bytes(batch)
    if described := _of_alike(rows, sizes):
        return arrays_of(rows[:, : sizes[0]], described)
    every = [columns for _, columns in items_of(batch)]
    if len(counts := sorted({len(one) for one in every})) != 1:
        raise ValueError(f"items of a batch have {' or '.join(map(str, counts))} columns: take batches of 1")
    stacked = []
    for number, column in enumerate(zip(*every, strict=True)):
        kinds = sorted({f"{array.dtype}{list(array.shape)}" for array in column})
        if len(kinds) != 1:
            raise ValueError(f"items of a batch differ in column {number}: {', '.join(kinds)}: take batches of 1")
        stacked.append(np.stack(column))
    return stacked


def infos_of(batch: ServerBatch) -> SampleInfo:
    """What the table says of all items, arrays `[B]`."""
    count = len(batch.keys)
    return SampleInfo(
        batch.keys.numpy().view(np.uint64),
        batch.probabilities.numpy(),
        np.full(count, batch.table_size, dtype=np.int64),
        batch.priorities.numpy(),
        batch.times_sampled.numpy().astype(np.int32),
    )


def _items(batch: ServerBatch) -> Iterator[tuple[SampleInfo, list[Array], bool]]:
    """The items of a batch, each with its columns, and whether one of them is squeezed."""
    records, size = batch.records.numpy(), batch.table_size
    rows, sizes = _bytes(batch)
    described = _of_alike(rows, sizes)
    every = arrays_of(rows[:, : sizes[0]], described) if described else []
    told = (
        records[:, KEY].tolist(),
        batch.probabilities.tolist(),
        records[:, PRIORITY].view(np.float64).tolist(),
        records[:, TIMES].tolist(),
    )
    for number, (key, probability, priority, times) in enumerate(zip(*told, strict=True)):
        info = SampleInfo(key, probability, size, priority, times)
        if described:
            yield info, [column[number, ...] for column in every], any(column.squeeze for column in described)
            continue
        item = rows[number : number + 1, : sizes[number]]
        own = described_columns_of(memoryview(item[0]))
        yield info, [column[0, ...] for column in arrays_of(item, own)], any(column.squeeze for column in own)


def _bytes(batch: ServerBatch) -> tuple[np.ndarray[Any, np.dtype[np.uint8]], list[int]]:
    """The items as bytes `[B, bytes]`, and how many each has."""
    words = batch.rows.words["cell"].numpy()
    sizes = ((batch.records.numpy()[:, STRETCHES] & LONGEST) * CELL_BYTES).tolist()
    return words.reshape(len(words), -1).view(np.uint8), sizes


def _of_alike(rows: np.ndarray[Any, np.dtype[np.uint8]], sizes: list[int]) -> tuple[Column, ...]:
    """The columns of items, if all have the same description; else none."""
    size = sizes[0]
    if len(sizes) > 1:
        if sizes.count(size) != len(sizes):
            return ()
        text = np.frombuffer(description_of(rows[0], size), dtype=np.uint8)
        if not bool((rows[:, size - len(text) : size] == text).all()):
            return ()
    return described_columns_of(memoryview(rows[0])[:size])
