"""What the clients of Reverb's interface get: items with what the table says of them."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from gmi_drl.replay.client.samples import ServerBatch
from gmi_drl.replay.reverb.layout import CELL_BYTES, arrays_of, description_of
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
    rows, size, alike = _bytes(batch), batch.table_size, _arrays_of_alike(batch)
    lengths = (batch.lengths["cell"] * CELL_BYTES).tolist()
    told = zip(
        batch.keys.tolist(),
        batch.probabilities.tolist(),
        batch.priorities.tolist(),
        batch.times_sampled.tolist(),
        strict=True,
    )
    for number, (key, probability, priority, times) in enumerate(told):
        found = alike or arrays_of(rows[number : number + 1, : lengths[number]])
        columns = [column[number if alike else 0, ...] for column in found]
        yield SampleInfo(key, probability, size, priority, times), columns


def steps_of(batch: ServerBatch) -> Iterator[tuple[SampleInfo, list[list[Array]]]]:
    """The items of a batch, one by one, each as its steps, which have an array for each column.

    Raises:
        ValueError: if columns have different lengths, or one was squeezed and has none.
    """
    rows, lengths = _bytes(batch), (batch.lengths["cell"] * CELL_BYTES).tolist()
    for row, length, (info, columns) in zip(rows, lengths, items_of(batch), strict=True):
        is_squeezed = any(column.squeeze for column in described_columns_of(memoryview(row[:length])))
        if is_squeezed or len({len(column) for column in columns}) != 1:
            raise ValueError("Can't split non timestep trajectory into timesteps.")
        yield info, [[column[step, ...] for column in columns] for step in range(len(columns[0]))]


def columns_of(batch: ServerBatch) -> list[Array]:
    """The columns of all items at once, `[B, T, *shape]`.

    Raises:
        ValueError: if shapes, types or the number of columns differ, with both.
    """
    if alike := _arrays_of_alike(batch):
        return alike
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


def _bytes(batch: ServerBatch) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """The items as bytes `[B, bytes]`."""
    words = batch.rows.words["cell"].numpy()
    return words.reshape(len(words), -1).view(np.uint8)


def _arrays_of_alike(batch: ServerBatch) -> list[Array]:
    """The columns of all items at once, `[B, T, *shape]`, if all have the same description; else none."""
    rows, lengths = _bytes(batch), batch.lengths["cell"] * CELL_BYTES
    size = int(lengths[0])
    if not bool((lengths == size).all()):
        return []
    text = np.frombuffer(description_of(rows[0], size), dtype=np.uint8)
    if not bool((rows[:, size - len(text) : size] == text).all()):
        return []
    return arrays_of(rows[:, :size])
