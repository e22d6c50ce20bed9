"""Checkpoints of shards: each rank writes its own, and the latest one that all have written counts (GEAR 3.5)."""

import re
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch

from gmi_drl.errors import GmiError, MachineError, UsageError
from gmi_drl.files import former_of
from gmi_drl.replay import checkpoint
from gmi_drl.replay.shards.calls import Calls
from gmi_drl.replay.shards.dealing import Counts, counts_of, deal_out
from gmi_drl.replay.shards.meeting import bits_of
from gmi_drl.replay.shards.shard import Shard
from gmi_drl.replay.table_state import TableState

_STEPS_TOLD = 8
_NAME = re.compile(r"step-(\d+)\.shard-(\d+)-of-(\d+)")


class ShardState:
    """A shard as a source of checkpoints.

    Args:
        shard: Which.
        counts: Saved with it, and set by a restore.
    """

    def __init__(self, shard: Shard, counts: Counts) -> None:
        self._shard, self.counts = shard, counts
        self._table = TableState(shard.table)

    def facts(self) -> dict[str, Any]:
        """What must be the same at a restore."""
        facts = self._table.facts()
        del facts["0.name"]
        return facts | {"kind": "shard", "longest": self._shard.steps}

    @contextmanager
    def snapshot(self) -> Iterator[dict[str, Any]]:
        """See `checkpoint.Source`."""
        counts = self.counts
        numbers = {"selections": counts.selections, "epochs": bits_of(counts.epochs), "calls": counts.calls}
        with ExitStack() as until_read:
            with self._shard.lock:  # the table's, which its own snapshot takes again
                own = {"stamps": self._shard.stamps.clone(), "committed": self._shard.committed}
                state = until_read.enter_context(self._table.snapshot())
            yield state | {"shard": own | numbers}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """See `checkpoint.Source`."""
        self._table.load_state_dict(state)
        own = state["shard"]
        self.counts = counts_of(own)
        self._shard.take_over(own["stamps"], own["committed"])


def save(folder: Path, calls: Calls, selections: int, epochs: float, trainer_step: int) -> None:
    """Save this rank's shard; a call of all ranks. Earlier checkpoints go when all ranks have written this one.

    Args:
        folder: One for all ranks, or each its own disk's.
        calls: Of the ranks.
        selections: So far.
        epochs: So far.
        trainer_step: Of the learner, 0 or more.

    Raises:
        UsageError: if ranks save other steps, or the step is negative.
        MachineError: if a rank cannot write, which all others name; the former checkpoint is as it was.
    """
    meeting = calls.meeting
    calls.begin(f"saves step {trainer_step}")
    if not calls.shard.is_padded:
        raise UsageError("shards of a folder have nothing to save but how far they have come: keep their state_dict()")
    if trainer_step < 0:
        raise UsageError(f"a trainer's step is 0 or more, not {trainer_step}")
    state = ShardState(calls.shard, Counts(selections, epochs, meeting.calls))
    place = shard_folder(folder, trainer_step, meeting.rank, meeting.size)
    together(calls, f"save step {trainer_step}", lambda: checkpoint.save(place, state, trainer_step))
    for step, rank, size, path in found_in(folder):
        is_ours = rank == meeting.rank or (rank >= meeting.size and meeting.rank == 0)
        if is_ours and (step, size) != (trainer_step, meeting.size):
            shutil.rmtree(path, ignore_errors=True)


def restore(folder: Path, calls: Calls) -> tuple[int, Counts]:
    """Restore; a call of all ranks, whose shards must be empty.

    As many ranks as have saved take each its own shard, bit for bit, of the latest step that all have. To another
    number of ranks all trajectories are dealt out anew (`dealing.py`): then each must see the folders of all.
    If a rank was killed just when it had put its former checkpoint aside, that one is loaded.

    Returns:
        The trainer's step, and what was counted.

    Raises:
        UsageError: if there is no checkpoint that all ranks have, it was altered, or there is too little room.
        MachineError: if another rank could not; it is named.
    """
    meeting, shard = calls.meeting, calls.shard
    all_found = found_in(folder)
    own = sorted({step for step, rank, size, _ in all_found if (rank, size) == (meeting.rank, meeting.size)})
    told = torch.full((_STEPS_TOLD + 2,), -1)
    told[: len(own[-_STEPS_TOLD:])] = torch.tensor(own[-_STEPS_TOLD:], dtype=torch.int64)
    told[_STEPS_TOLD:] = torch.tensor(_latest_whole(all_found, meeting.size))
    calls.begin("restores")
    rows = torch.stack(meeting.gather("checkpoint", told, [len(told)] * meeting.size))
    if shard.table.size:
        raise UsageError(f"{shard.table.name} has {shard.table.size} trajectories: restore before any is committed")
    steps = [set(row) - {-1} for row in rows[:, :_STEPS_TOLD].tolist()]
    step, size = max(set.intersection(*steps), default=-1), meeting.size
    if step < 0:
        step, size = rows[0, _STEPS_TOLD:].tolist()
        if step < 0 or bool((rows[:, _STEPS_TOLD:] != rows[0, _STEPS_TOLD:]).any()):
            have = ", ".join(f"rank {rank} has {sorted(part) or 'none'}" for rank, part in enumerate(steps))
            text = f"{folder} has no step of {meeting.size} shards that all ranks have ({have})"
            raise UsageError(f"{text}, nor one of another number of shards that all see")
    counts = Counts(0, 0.0, 0)

    def load() -> None:
        nonlocal counts
        if size != meeting.size:
            counts = deal_out([shard_folder(folder, step, rank, size) for rank in range(size)], shard, meeting)
            return
        state = ShardState(shard, counts)
        checkpoint.restore(shard_folder(folder, step, meeting.rank, size), state)
        counts = state.counts

    together(calls, f"restore step {step}", load)
    meeting.calls = max(meeting.calls, counts.calls)
    calls.as_of = shard.meeting = meeting.calls
    return step, counts


def together(calls: Calls, what: str, work: Callable[[], None]) -> None:
    """Do something that may fail on one rank: then all raise.

    Raises:
        GmiError: what the work raised.
        MachineError: if another rank's did.
    """
    failure: GmiError | None = None
    try:
        work()
    except GmiError as error:
        failure = error
    rows = calls.begin(f"is about to have done: {what}", lambda: [failure is not None])
    if failure is not None:
        raise failure
    if failed := np.flatnonzero(rows[:, 0]).tolist():
        raise MachineError(f"rank {failed[0]} could not {what} of its shard: its log says why")


def shard_folder(folder: Path, step: int, rank: int, size: int) -> Path:
    """Where a rank's shard is."""
    return folder / f"step-{step}.shard-{rank}-of-{size}"


def found_in(folder: Path) -> list[tuple[int, int, int, Path]]:
    """The shards in a folder: step, rank, number of ranks, path; also those that were put aside by a save.

    One may be there twice. Those that were being written do not count.
    """
    there = [(path.name, path) for path in folder.glob("step-*")]
    aside = [(path.stem[1:], path) for path in folder.glob(former_of(folder / "step-*").name)]
    matches = [(_NAME.fullmatch(name), path) for name, path in there + aside]
    return [(*map(int, match.groups()), path) for match, path in matches if match]  # type: ignore[misc]


def _latest_whole(found: list[tuple[int, int, int, Path]], size: int) -> tuple[int, int]:
    """The latest step of another number of ranks, with this number, of which all shards are there; -1, -1 of none."""
    ranks: dict[tuple[int, int], set[int]] = {}
    for step, rank, of, _ in found:
        ranks.setdefault((step, of), set()).add(rank)
    return max((key for key, there in ranks.items() if key[1] != size and len(there) == key[1]), default=(-1, -1))
