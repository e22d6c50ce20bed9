"""Writes trajectories of any columns of the last steps."""

import secrets
from collections.abc import Callable, Sequence
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from gmi_drl.errors import GmiError
from gmi_drl.replay.reverb.columns import Cell, ColumnHistory, TrajectoryColumn
from gmi_drl.replay.reverb.errors import in_their_words
from gmi_drl.replay.reverb.nest import Nest, Path, flatten, flatten_with_path, structure_of, unflatten_as, union
from gmi_drl.replay.reverb.specs import differences
from gmi_drl.replay.reverb.stream import MOST_IN_FLIGHT, CellStream
from gmi_drl.replay.words import LONGEST_WAIT_S

if TYPE_CHECKING:
    from gmi_drl.replay.reverb.client import Client

EPISODE_BITS = 63
"""Of the number of an episode."""


class TrajectoryWriter:
    """Appends steps, and makes items of columns of what it remembers. One thread may use it.

    Steps that no item has are never sent. Items are sent together: at the next call 5 ms after the last time, or when
    there are many, or at `flush`.

    Args:
        client: Of the server.
        num_keep_alive_refs: Steps that the history has.
        validate_items: Whether items are compared with the signature of their table before they are sent.
        most_in_flight: Items that are sent and not acknowledged, at most.
        label: Names a field in messages.
    """

    def __init__(
        self,
        client: "Client",
        num_keep_alive_refs: int,
        validate_items: bool = True,
        most_in_flight: int = MOST_IN_FLIGHT,
        label: Callable[[Path], str] = str,
    ) -> None:
        self._client, self._size, self._validates = client, num_keep_alive_refs, validate_items
        self._most_in_flight, self._label = most_in_flight, label
        self._columns: dict[Path, ColumnHistory] = {}
        self._structure: Nest = None
        self._history: Nest = None  # of all columns, until there are others
        self._sizes: dict[Path, int] = {}
        self._is_open = False
        self._stream: CellStream | None = None
        self._episode, self._steps = secrets.randbits(EPISODE_BITS), 0

    @property
    def history(self) -> Nest:
        """The history of each field, in the structure of all steps so far: `history["a"][-2:]` is a column.

        Raises:
            RuntimeError: if there was no step.
        """
        if not self._columns:
            raise RuntimeError("history cannot be accessed before `append` is called at least once.")
        if self._history is None:
            paths = [path for path, _ in flatten_with_path(self._structure)]
            self._history = unflatten_as(self._structure, [self._columns[path] for path in paths])
        return self._history

    @property
    def remembered(self) -> int:
        """Steps that the history has."""
        return min(self._size, len(next(iter(self._columns.values())))) if self._columns else 0

    @property
    def episode_steps(self) -> int:
        """Steps since the last `end_episode`, complete ones."""
        return self._steps

    @property
    def step_is_open(self) -> bool:
        """Whether the last step may get further fields."""
        return self._is_open

    def configure(self, path: Path, *, num_keep_alive_refs: int, max_chunk_length: int | None) -> None:
        """Let a field have another history.

        Args:
            path: Of the field, which need not have come yet.
            num_keep_alive_refs: Steps that it has.
            max_chunk_length: Has no effect: arrays are stored as they are.

        Raises:
            ValueError: if a number is out of range.
        """
        if num_keep_alive_refs < 1:
            raise ValueError(f"num_keep_alive_refs ({num_keep_alive_refs}) must be a positive integer")
        if max_chunk_length is not None and not 1 <= max_chunk_length <= num_keep_alive_refs:
            text = f"None or a positive integer <= num_keep_alive_refs ({num_keep_alive_refs})"
            raise ValueError(f"max_chunk_length ({max_chunk_length}) must be {text}")
        self._sizes[path] = num_keep_alive_refs
        if path in self._columns:
            self._columns[path].configure(num_keep_alive_refs)

    def append(self, data: Nest, *, partial_step: bool = False) -> None:
        """Remember a step, or a part of one. Fields may be None, or not there; new ones may come at any time.

        Args:
            data: A nest of arrays.
            partial_step: Whether the step goes on with the next call.

        Raises:
            ValueError: if a field is there twice in a step, or of another type or shape than before.
        """
        self.append_leaves(data, flatten_with_path(data), partial_step)

    def append_leaves(self, data: Nest, leaves: Sequence[tuple[Path, Any]], partial_step: bool = False) -> None:
        """As `append`, of a nest whose leaves with their paths are known."""
        columns = self._columns
        if new := [path for path, _ in leaves if path not in columns]:
            self._add_columns(data, new)
        if self._is_open:
            for path, value in leaves:
                if value is not None and not columns[path].can_set_last:
                    text = "has already been set in the active step by previous (partial) append call"
                    raise ValueError(f"Field {self._label(path)} {text} and thus must be omitted or set to None")
        cells = {path: Cell(columns[path].taken(value)) for path, value in leaves if value is not None}
        if self._is_open:
            for path, cell in cells.items():
                columns[path].set_last(cell)
        else:
            for path, column in columns.items():
                column.append(cells.get(path))
        self._is_open = partial_step
        self._steps += not partial_step

    def create_item(self, table: str, priority: float, trajectory: Nest) -> None:
        """Make an item. It waits for nothing; `flush` does.

        Args:
            table: By name.
            priority: 0 or more.
            trajectory: A nest of columns, such as `history["a"][-3:]`.

        Raises:
            TypeError: if a leaf is no column.
            ValueError: if there is no such table, a step is forgotten, arrays of a column differ, or the item is not
                what the signature of the table says.
        """
        columns = flatten(trajectory)
        if not all(isinstance(column, TrajectoryColumn) for column in columns):
            raise TypeError(f"All leaves of `trajectory` must be `TrajectoryColumn` but got {trajectory}")
        self.create_flat_item(table, priority, columns, columns)

    def create_flat_item(
        self, table: str, priority: float, columns: list[TrajectoryColumn], compared: Sequence[Any]
    ) -> None:
        """As `create_item`, of the columns in order. What is `compared` has the shapes of the table's signature."""
        signature = self._client.signature(table)
        check_item(table, priority, columns, signature if self._validates else None, compared)
        if self._stream is None:
            self._stream = self._client.take_stream()
            self._stream.most_in_flight = self._most_in_flight
        self._stream.episode = self._episode
        with in_their_words():
            self._stream.create_item(table, float(priority), columns)

    def flush(self, block_until_num_items: int = 0, timeout_ms: int | None = None) -> None:
        """Send all items, and wait until they are in, but so many.

        Args:
            block_until_num_items: Items that may be on their way still.
            timeout_ms: Milliseconds to wait; None for no limit.

        Raises:
            ValueError: if the number is negative, or the server has refused items.
            DeadlineExceededError: if it takes longer. The items go in later.
        """
        if block_until_num_items < 0:
            raise ValueError(f"block_until_num_items must be >= 0, got {block_until_num_items}")
        if self._stream is not None:
            timeout_s = LONGEST_WAIT_S if timeout_ms is None or timeout_ms < 0 else timeout_ms / 1000
            with in_their_words():
                self._stream.flush(timeout_s, block_until_num_items)

    def end_episode(self, clear_buffers: bool = True, timeout_ms: int | None = None) -> None:
        """Wait until all items are in, and begin the next episode.

        Args:
            clear_buffers: Whether the history forgets all.
            timeout_ms: As of `flush`. The episode ends also if it takes longer.
        """
        try:
            self.flush(timeout_ms=timeout_ms)
        finally:
            self._episode, self._steps, self._is_open = secrets.randbits(EPISODE_BITS), 0, False
            if clear_buffers:
                for column in self._columns.values():
                    column.reset()

    def leave(self) -> None:
        """Send all items, without waiting for them, and close."""
        if self._stream is not None:
            with suppress(GmiError):
                self._stream.send()
        self.close()

    def close(self) -> None:
        """Give the connection back. What was not flushed may be lost."""
        stream, self._stream = self._stream, None
        if stream is not None:
            for column in self._columns.values():
                column.leave_stream()
            self._client.give_stream(stream)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: Any, _: TracebackType | None) -> None:
        if kind is None:
            self.flush()
        else:  # waiting could take forever
            self.leave()

    def __del__(self) -> None:
        if getattr(self, "_stream", None) is not None:
            self.close()

    def _add_columns(self, data: Nest, new: list[Path]) -> None:
        """Begin histories for fields that have come for the first time."""
        self._history = None
        known, steps = structure_of(data), len(next(iter(self._columns.values()))) if self._columns else 0
        self._structure = union(self._structure, known) if self._columns else known
        for path in new:
            self._columns[path] = ColumnHistory(self._label(path), self._sizes.get(path, self._size), steps)


def check_item(
    table: str, priority: float, columns: Sequence[TrajectoryColumn], signature: Nest, compared: Sequence[Any]
) -> None:
    """Raise unless an item may go into a table; None for any signature.

    Raises:
        ValueError: as in `TrajectoryWriter.create_item`.
    """
    if not 0 <= priority < float("inf"):
        raise ValueError(f"a priority must be a number of 0 or more, not {priority}")
    if signature is not None and (text := differences(signature, compared)):
        raise ValueError(f"table {table}: the item does not match: {text}")
    for number, column in enumerate(columns):
        _check(number, column)


def _check(number: int, column: TrajectoryColumn) -> None:
    """Raise unless the arrays of a column go together and are remembered."""
    if not column.cells:
        raise ValueError(f"column {number} of the trajectory has no steps")
    first = column.cells[0].array
    for cell in column.cells:
        if cell.expired:
            raise ValueError(f"column {number} of the trajectory has a step that the history has forgotten")
        if cell.array is not first and (cell.array.dtype != first.dtype or cell.array.shape != first.shape):
            kinds = " and ".join(f"{one.dtype}{list(one.shape)}" for one in (first, cell.array))
            raise ValueError(f"column {number} of the trajectory has arrays of {kinds}")
