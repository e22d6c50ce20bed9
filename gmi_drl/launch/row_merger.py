"""Merges one row per GMI into one row per iteration."""

from collections import deque
from collections.abc import Callable, Sequence
from typing import cast

from gmi_drl.gmi.utilisation import Usage
from gmi_drl.run.metrics import Row
from gmi_drl.run.phases import ACT, PHASE_NAMES, SIMULATE

EPISODES_AVERAGED = 100
LEAST_USAGE_S = 1.0
"""The least time over which utilisation is averaged, if training has run that long: iterations may be shorter."""


class RowMerger:
    """Merges the rows of an iteration when those of all GMIs have come. Lost rows are not waited for.

    `clock_s` in a GMI's row is its `time.monotonic()`, a clock that all processes of a host share: this process may
    read a row long after it was sent.

    Args:
        num_gmis: The number of GMIs that report.
        steps_per_iteration: Control steps of all environments.
        usage: Returns the utilisation of the GPUs between two times of that clock, see `gmi.utilisation`. In rows it is
            `devices`, which is left out if it is empty.
    """

    def __init__(
        self,
        num_gmis: int,
        steps_per_iteration: int,
        usage: Callable[[float, float], Usage] = lambda since_s, until_s: {},
    ) -> None:
        self.num_gmis, self.steps_per_iteration, self._usage = num_gmis, steps_per_iteration, usage
        self._pending: dict[int, dict[int, Row]] = {}
        self._episodes: deque[tuple[float, float, float]] = deque()
        self._count = 0.0  # of the episodes in it; a whole number, so it stays exact
        self._last: Row | None = None  # the leader's last row
        self._began_s: float | None = None  # when the first iteration began, after loading

    def recall(self, rows: Sequence[Row]) -> None:
        """Take the episodes of earlier rows of a run that goes on: its means are as if it had not been interrupted.

        Only the last rows that have the episodes of a mean are kept: a run may have very many.
        """
        for row in reversed(rows):
            if self._count >= EPISODES_AVERAGED:
                break
            numbers = tuple(row.get(name) for name in ("episodes", "return_sum", "length_sum"))
            if all(isinstance(number, float) for number in numbers) and numbers[0]:
                self._episodes.appendleft(cast(tuple[float, float, float], numbers))
                self._count += numbers[0]

    def add(self, gmi_id: int, row: Row) -> list[Row]:
        """Add a GMI's row. Returns the merged rows that are now complete, in order."""
        iteration = row["iteration"]
        self._pending.setdefault(iteration, {})[gmi_id] = row
        ready = [i for i, rows in self._pending.items() if len(rows) == self.num_gmis or i < iteration - 1]
        return [merged for i in sorted(ready) if (merged := self._merge(self._pending.pop(i))) is not None]

    def _merge(self, rows: dict[int, Row]) -> Row | None:
        """Merge the rows of an iteration: times are means over the GMIs, the learner's numbers are those of rank 0."""
        leader = next((row for row in rows.values() if "reward_mean" in row), None)
        if leader is None or (self._last is not None and leader["iteration"] <= self._last["iteration"]):
            return None
        times = {name: sum(row[name] for row in rows.values()) / len(rows) for name in PHASE_NAMES}
        shared = {name: value for name, value in leader.items() if name not in (*PHASE_NAMES, "gmi", "clock_s")}
        devices = self._usage_until(leader["clock_s"], sum(times.values()))
        return {
            **shared,
            "steps_per_second": self._steps_per_second(leader, sum(times.values())),
            **self._episode_means(leader),
            "collect_s": times[SIMULATE.name] + times[ACT.name],
            **times,
            "gmis": {str(gmi_id): {name: row[name] for name in PHASE_NAMES} for gmi_id, row in sorted(rows.items())},
            **({"devices": devices} if devices else {}),
        }

    def _steps_per_second(self, leader: Row, iteration_s: float) -> float:
        """The speed from row to row, which includes checkpoints, reports and iterations whose rows were lost.

        An evaluation is not training, so its seconds do not count. For the first row it is the speed of its phases.
        """
        last, self._last = self._last, leader
        if last is None:
            return self.steps_per_iteration / max(iteration_s, 1e-9)
        seconds = leader["clock_s"] - last["clock_s"] - leader.get("eval_s", 0.0)
        return float((leader["env_steps"] - last["env_steps"]) / max(seconds, 1e-9))

    def _usage_until(self, now_s: float, iteration_s: float) -> Usage:
        """The utilisation since the last row, over at least `LEAST_USAGE_S`, but not before the first iteration."""
        if self._began_s is None:
            self._began_s = now_s - iteration_s
        before_s = self._began_s if self._last is None else self._last["clock_s"]
        return self._usage(max(self._began_s, min(before_s, now_s - LEAST_USAGE_S)), now_s)

    def _episode_means(self, leader: Row) -> Row:
        """Mean return and length of about the last hundred episodes; None until one has ended."""
        if leader["episodes"] > 0:  # rows without episodes need not be kept
            self._episodes.append((leader["episodes"], leader["return_sum"], leader["length_sum"]))
            self._count += leader["episodes"]
        if not self._episodes:
            return {"return_mean": None, "episode_length_mean": None}
        while self._count - self._episodes[0][0] >= EPISODES_AVERAGED:
            self._count -= self._episodes.popleft()[0]
        count, returns, lengths = (sum(column) for column in zip(*self._episodes, strict=True))
        return {"return_mean": returns / count, "episode_length_mean": lengths / count}
