"""Writes items by patterns, each time when a step came."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gmi_drl.replay.reverb.columns import Cell, ColumnHistory, TrajectoryColumn
from gmi_drl.replay.reverb.conditions import DATA, IS_END_EPISODE, STEP_INDEX, Comparison
from gmi_drl.replay.reverb.nest import Nest, Path, flatten_with_path
from gmi_drl.replay.reverb.patterns import Config, PatternNode
from gmi_drl.replay.reverb.trajectory_writer import TrajectoryWriter

if TYPE_CHECKING:
    from gmi_drl.replay.reverb.client import Client


@dataclass
class _State:
    """A config, and when it has made its last item."""

    config: Config
    steps_since_applied: int = 0
    checked: int = -1  # numbers of steps, of all episodes
    applied: int = -1


class StructuredWriter:
    """Appends steps of one structure, and makes the items that configs say. One thread may use it.

    Args:
        client: Of the server.
        configs: At least one.
    """

    def __init__(self, client: "Client", configs: Sequence[Config]) -> None:
        self._states = [_State(config) for config in configs]
        self._ages: dict[int, int] = {}
        for config in configs:
            for node in config.flat:
                self._ages[node.source] = max(self._ages.get(node.source, 0), node.age)
            for condition in config.conditions:
                if condition.left == DATA:
                    self._ages[condition.source] = max(self._ages.get(condition.source, 0), 1)
        self._paths: list[Path] = []
        self._writer = TrajectoryWriter(client, max(1, *self._ages.values()), label=self._label)
        self._step = -1  # the number of the last step, of all episodes
        self._first = 0  # of the episode

    @property
    def step_is_open(self) -> bool:
        """Whether the last step may get further fields."""
        return self._writer.step_is_open

    def append(self, data: Nest, *, partial_step: bool = False) -> None:
        """Remember a step, or a part of one, and make the items that are due.

        Args:
            data: A nest of arrays, with None where a field is missing; of the same structure each time.
            partial_step: Whether the step goes on with the next call.

        Raises:
            ValueError: if the structure has another size, or a field another type or shape than before.
        """
        leaves = flatten_with_path(data)
        self._paths = self._paths or [path for path, _ in leaves]
        if len(leaves) != len(self._paths):
            text = f"Flattened data has an unexpected length, got {len(leaves)}"
            raise ValueError(f"{text} but wanted {len(self._paths)}.")
        is_new = not self._writer.step_is_open
        used = [value if field in self._ages else None for field, (_, value) in enumerate(leaves)]
        self._writer.append(used, partial_step=partial_step)
        self._step += is_new
        self._make_items(is_end=False)

    def flush(self, block_until_num_items: int = 0, timeout_ms: int | None = None) -> None:
        """As of `TrajectoryWriter`."""
        self._writer.flush(block_until_num_items, timeout_ms)

    def end_episode(self, clear_buffers: bool = True, timeout_ms: int | None = None) -> None:
        """Make the items that are due at the end, wait until all are in, and begin the next episode."""
        self._make_items(is_end=True)
        try:
            self._writer.end_episode(clear_buffers, timeout_ms)
        finally:
            self._first = self._step + 1

    def _make_items(self, is_end: bool) -> None:
        if not self._writer.remembered:
            return
        history: list[ColumnHistory] = self._writer.history
        if all(column.can_set_last for column in history):  # nothing of the last step is used
            return
        for state in self._states:
            if state.applied == self._step:
                continue
            state.steps_since_applied += state.checked != self._step
            state.checked = self._step
            if len(history[0]) < state.config.age:
                continue
            if all(self._holds(condition, state, history, is_end) for condition in state.config.conditions):
                self._make_item(state, history)

    def _make_item(self, state: _State, history: list[ColumnHistory]) -> None:
        """Make an item, unless a field is missing in one of its steps."""
        columns = []
        for node in state.config.flat:
            cells = _cells(node, history)
            if cells is None:
                return
            columns.append(TrajectoryColumn(cells, squeeze=node.is_squeezed))
        nodes = zip(state.config.flat, ([cell.array for cell in column] for column in columns), strict=True)
        priority = state.config.priority.of(list(nodes))
        self._writer.create_flat_item(state.config.table, priority, columns, columns)
        state.applied, state.steps_since_applied = self._step, 0

    def _holds(self, condition: Comparison, state: _State, history: list[ColumnHistory], is_end: bool) -> bool:
        if condition.left == IS_END_EPISODE:
            return condition.holds(int(is_end))
        if condition.left == STEP_INDEX:
            return condition.holds(self._step - self._first)
        if condition.left != DATA:
            return condition.holds(state.steps_since_applied)
        cells = _cells(PatternNode(condition.source, None, -1, None), history)
        if cells is None:
            return False
        array = cells[0].array
        if array.size != 1 or array.dtype.kind not in "biu":
            text = "a condition needs a whole number or a truth value"
            raise ValueError(f"{text}, field {condition.source} is {array.dtype}{list(array.shape)}")
        return condition.holds(int(array.item()))

    def _label(self, path: Path) -> str:
        (field,) = path
        return f"{field} (path={self._paths[int(field)]})"


def _cells(node: PatternNode, history: list[ColumnHistory]) -> list[Cell] | None:
    """The cells of a column; None if a step lacks the field."""
    if node.source >= len(history):
        return None
    cells = [history[node.source].cell(step) for step in node.steps]
    return None if None in cells else cells  # type: ignore[return-value]
