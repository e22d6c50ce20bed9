"""Reverb's older writer: items are the last steps (the examples of Reverb, section 4)."""

from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from gmi_drl.replay.reverb.nest import Nest, Path, flatten, flatten_with_path
from gmi_drl.replay.reverb.stream import MOST_IN_FLIGHT
from gmi_drl.replay.reverb.trajectory_writer import TrajectoryWriter

if TYPE_CHECKING:
    from gmi_drl.replay.reverb.client import Client


class Writer:
    """Appends steps, and makes items of the last ones. One thread may use it.

    Args:
        client: Of the server.
        max_sequence_length: Steps of the longest item.
        max_in_flight_items: Items that are sent and not acknowledged, at most; None for no limit.
    """

    def __init__(self, client: "Client", max_sequence_length: int, max_in_flight_items: int | None) -> None:
        most = min(MOST_IN_FLIGHT, max_in_flight_items or MOST_IN_FLIGHT)
        self._writer = TrajectoryWriter(client, max_sequence_length, most_in_flight=most)
        self._fields, self._paths = 0, list[Path]()
        self._is_closed = False

    def append(self, data: Nest) -> None:
        """Remember a step, a nest of arrays. All steps have the same fields, types and shapes.

        Raises:
            ValueError: if they differ.
        """
        leaves = flatten(data)
        if self._fields not in (0, len(leaves)):
            raise ValueError(f"a step has {len(leaves)} arrays, the steps before have {self._fields}")
        if not self._fields:
            self._fields, self._paths = len(leaves), [path for path, _ in flatten_with_path(leaves)]
        self._writer.append_leaves(leaves, list(zip(self._paths, leaves, strict=True)))

    def append_sequence(self, sequence: Nest) -> None:
        """Remember steps: arrays `[T, ...]`.

        Raises:
            ValueError: if their first sizes differ.
        """
        arrays = [np.asarray(leaf) for leaf in flatten(sequence)]
        if len({array.shape[:1] for array in arrays}) != 1:
            raise ValueError(f"arrays of a sequence differ in their first size: {[one.shape for one in arrays]}")
        for step in range(len(arrays[0])):
            self.append([array[step] for array in arrays])

    def create_item(self, table: str, num_timesteps: int, priority: float) -> None:
        """Make an item of the last steps.

        Raises:
            ValueError: if there are not as many.
        """
        if num_timesteps < 1:
            raise ValueError(f"num_timesteps ({num_timesteps}) must be a positive integer")
        if num_timesteps > (steps := self._writer.remembered):
            raise ValueError(f"num_timesteps ({num_timesteps}) is more than the {steps} steps that are remembered")
        columns = [column[-num_timesteps:] for column in self._writer.history]
        self._writer.create_flat_item(table, priority, columns, [column.cells[0] for column in columns])

    def flush(self) -> None:
        """Send all items, and wait until they are in."""
        self._writer.flush()

    def close(self, retry_on_unavailable: bool = True) -> None:
        """Flush, and end the writer.

        Args:
            retry_on_unavailable: Has no effect: what a server had not acknowledged when it ended is told as an error.

        Raises:
            ValueError: if it is closed already.
        """
        if self._is_closed:
            raise ValueError("close() has already been called on Writer.")
        self._is_closed = True
        try:
            self._writer.flush()
        finally:
            self._writer.close()

    def __enter__(self) -> Self:
        if self._is_closed:
            raise ValueError("Cannot reuse already closed Writer")
        return self

    def __exit__(self, kind: type[BaseException] | None, error: Any, _: TracebackType | None) -> None:
        if kind is not None:  # waiting could take forever
            self._is_closed = True
            self._writer.leave()
        elif not self._is_closed:
            self.close()

    def __del__(self) -> None:
        if not getattr(self, "_is_closed", True):
            self._is_closed = True
            self._writer.close()
