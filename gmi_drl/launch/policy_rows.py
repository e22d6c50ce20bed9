"""Merges the rows of several policies into one row per iteration."""

from collections.abc import Callable, Mapping, Sequence

from gmi_drl.gmi.utilisation import Usage
from gmi_drl.launch.policies import LearningPolicy
from gmi_drl.launch.row_merger import RowMerger
from gmi_drl.layout.policies import TRAINERS
from gmi_drl.run.metrics import Row

SUMS = (
    "env_steps",
    "steps_per_second",
    "episodes",
    "return_sum",
    "length_sum",
    "bad_environments",
    "predictions_per_second",
    "training_samples_per_second",
    "training_frames_per_second",
)
"""Numbers of a row that are sums over the policies; others are means, but for `LARGEST`."""

LARGEST = ("lag_max",)
"""Numbers of a row that are the largest of the policies."""


class PolicyRows:
    """Merges the rows of all policies' trainers; see `RowMerger`.

    Args:
        policies: Those that learn.
        usage: See `RowMerger`.
    """

    def __init__(self, policies: Sequence[LearningPolicy], usage: Callable[[float, float], Usage]) -> None:
        self._mergers = {
            one.name: RowMerger(
                len(one.layout.groups[TRAINERS].members), one.config.learner.steps_of(one.layout), usage
            )
            for one in policies
        }
        self._policy_of = {gmi: one.name for one in policies for gmi in one.layout.groups[TRAINERS].members}
        self._pending: dict[int, dict[str, Row]] = {}

    def recall(self, rows: Sequence[Row]) -> None:
        """See `RowMerger.recall`."""
        for name, merger in self._mergers.items():
            merger.recall([row["policies"][name] for row in rows if name in row.get("policies", {})])

    def add(self, gmi_id: int, row: Row) -> list[Row]:
        """Add a GMI's row. Returns the rows of iterations that all policies have, in order."""
        name, whole = self._policy_of[gmi_id], list[Row]()
        for merged in self._mergers[name].add(gmi_id, row):
            self._pending.setdefault(merged["iteration"], {})[name] = merged
        for iteration in sorted(self._pending):
            if len(self._pending[iteration]) == len(self._mergers):
                rows = self._pending[iteration]
                whole.append(combined({name: rows[name] for name in self._mergers}))  # not as they came
                self._pending = {other: rows for other, rows in self._pending.items() if other > iteration}
        return whole


def combined(rows: Mapping[str, Row]) -> Row:
    """The row of an iteration: sums, means or the largest of what all policies tell, and `policies`, by name.

    What one policy tells for all, such as the terms of the reward, is that of the first which does.

    Args:
        rows: Of the policies, in their order.
    """
    first, *_ = rows.values()
    numbers = [name for name in first if all(_is_number(row.get(name)) for row in rows.values())]
    merged: Row = {name: _merged(name, [row[name] for row in rows.values()]) for name in numbers}
    for name in ("return_mean", "episode_length_mean"):
        merged.setdefault(name, None)
    of_one = ("world_returns", "reward_terms", "devices")
    shared: Row = {name: row[name] for row in [*rows.values()][::-1] for name in of_one if name in row}
    gmis = {gmi: phases for row in rows.values() for gmi, phases in row["gmis"].items()}
    return {**merged, "iteration": first["iteration"], **shared, "gmis": gmis, "policies": dict(rows)}


def _merged(name: str, values: Sequence[float]) -> float:
    if name in LARGEST:
        return max(values)
    return sum(values) if name in SUMS else sum(values) / len(values)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
