"""`import_episodes`: episodes from anywhere into a `.replay` folder."""

from collections.abc import Callable, Generator, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import torch
from safetensors import SafetensorError
from torch import Tensor

from gmi_drl.errors import MachineError, UsageError
from gmi_drl.replay.episodes import ROWS, write_episodes_index
from gmi_drl.replay.fields import Field, Signature
from gmi_drl.replay.importing.checks import ADDED, RETURN_TO_GO, checked
from gmi_drl.replay.importing.draft import Draft
from gmi_drl.replay.importing.moments import Moments
from gmi_drl.replay.importing.spool import Spool, laid_out
from gmi_drl.replay.items import LONGEST
from gmi_drl.replay.storage.file import FileStorage


@dataclass(frozen=True)
class Episode:
    """An episode that is still to be read.

    Args:
        place: Where it is, for messages: `FILE: episode 3`.
        read: Returns its fields, as `import_episodes` takes them. A `UsageError` says what is wrong with it.
    """

    place: str
    read: Callable[[], Mapping[str, Any]]


def without_end(place: str) -> Episode:
    """Steps behind the last end of a recording, which may go on: a mistake when they are read."""

    def read() -> Mapping[str, Any]:
        raise UsageError("it has no end, as the recording ends within it: skip_broken (--skip-broken) leaves it out")

    return Episode(place, read)


@dataclass(frozen=True)
class Imported:
    """What an import has done.

    Args:
        episodes: How many there are in the folder.
        steps: Of all of them.
        skipped: Of each episode that was left out, where it is and what is wrong.
        begins_anew: Whether an earlier import into this folder was killed, so that this one began from the start.
    """

    episodes: int
    steps: int
    skipped: tuple[str, ...]
    begins_anew: bool


def import_episodes(
    episodes: Iterable[Mapping[str, Any] | Episode],
    into: Path | str,
    signature: Signature | None = None,
    *,
    skip_broken: bool = False,
) -> Imported:
    """Write episodes into a folder, which `gmi_drl.replay.EpisodeSet` reads. Without all of them it is not there.

    Args:
        episodes: Each a dict of arrays `[T, ...]`, whose T may differ: `reward` `[T]`, and usually `obs` `[T, ...]` or
            `[T + 1, ...]` (the last row is what follows), `action`, `terminated`, `truncated`, and any other. More:
            `checks.checked`. They are read once, one after the other.
        into: The folder, which must not be there. `hopper.replay`, say.
        signature: Of the fields that are given; None for that of the first episode.
        skip_broken: Whether to leave out episodes with mistakes. Else the first one ends the import.

    Raises:
        UsageError: if an episode has a mistake, with its place, or there is none at all.
        InUseError: if another process imports into this folder.
        MachineError: if the disk has no room.
    """
    coming = iter(episodes)
    with Draft(Path(into)) as draft:
        try:
            return _write(draft, coming, signature, skip_broken)
        except (OSError, SafetensorError) as error:
            reason = getattr(error, "strerror", None) or error
            raise MachineError(f"{into}: the episodes cannot be written: {reason}") from None
        finally:
            if isinstance(coming, Generator):
                coming.close()  # a reader's file is not left open until the error is forgotten


def _write(
    draft: Draft, episodes: Iterable[Mapping[str, Any] | Episode], signature: Signature | None, skip_broken: bool
) -> Imported:
    skipped = list[str]()
    with _Contents(draft.path, signature) as contents:
        for number, one in enumerate(episodes):
            episode = one if isinstance(one, Episode) else Episode(f"episode {number}", lambda one=one: one)  # type: ignore[misc]
            try:
                fields, following = checked(episode.read())
                contents.check(fields)
            except UsageError as error:
                if not skip_broken:
                    raise UsageError(f"{episode.place}: {error}") from None
                skipped.append(f"{episode.place}: {error}")
            else:
                contents.add(fields, following)
        if not contents.lengths:
            more = f"; all {len(skipped)} have mistakes, the first: {skipped[0]}" if skipped else ""
            raise UsageError(f"{draft.into}: there is no episode to import{more}")
        contents.write()
    draft.complete()
    return Imported(len(contents.lengths), sum(contents.lengths), tuple(skipped), draft.begins_anew)


class _Contents:
    """What a folder will have: rows on the disk, and of each episode what the index says.

    Args:
        folder: For all files.
        signature: Of the given fields; None for that of the first episode.
    """

    def __init__(self, folder: Path, signature: Signature | None) -> None:
        self._folder, self._given, self._moments = folder, signature, Moments()
        self._spool: Spool | None = None
        self.lengths, self._returns, self._knows_last = list[int](), list[float](), list[bool]()

    def check(self, fields: Mapping[str, Tensor]) -> None:
        """Raise unless an episode has the fields of the others.

        Raises:
            UsageError: with every difference.
        """
        steps = len(fields[RETURN_TO_GO])
        if steps >= LONGEST:
            raise UsageError(f"it has {steps} steps, {LONGEST - 1} at most")
        signature = self._spool.signature if self._spool else _stored(fields, self._given)
        signature.check(fields, (steps,))

    def add(self, fields: Mapping[str, Tensor], following: Mapping[str, Tensor]) -> None:
        """Append an episode, which was checked."""
        if self._spool is None:
            self._spool = Spool(_stored(fields, self._given), self._folder)
        self._spool.add(fields, following)
        self._moments.add(fields)
        self.lengths.append(len(fields[RETURN_TO_GO]))
        self._returns.append(float(fields[RETURN_TO_GO][0]))
        self._knows_last.append(bool(following))

    def write(self) -> None:
        """Write the rows in their order, and the index."""
        assert self._spool is not None
        signature, rows = self._spool.signature, self._spool.rows
        steps, first = laid_out(rows, signature)
        storage = FileStorage(signature, steps, longest=max(rows), path=self._folder / ROWS)
        self._spool.move_to(storage, first)
        state = {
            "first": first,
            "lengths": torch.tensor(self.lengths),
            "returns": torch.tensor(self._returns, dtype=torch.float64),
            "knows_last": torch.tensor(self._knows_last),
            "moments": self._moments.by_field,
        }
        write_episodes_index(self._folder, storage, steps, state)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        if self._spool is not None:
            self._spool.close()


def _stored(fields: Mapping[str, Tensor], given: Signature | None) -> Signature:
    """The signature of the rows: the given fields, and those that are computed."""
    kinds = [Field(name, tuple(value.shape[1:]), value.dtype) for name, value in fields.items()]
    if given is None:
        return Signature(kinds)
    return Signature([*given.fields, *(one for one in kinds if one.name in ADDED and one.name not in given.by_name)])
