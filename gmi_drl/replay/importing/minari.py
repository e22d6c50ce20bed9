"""Reads the datasets of Minari: HDF5 files with a group for each episode."""

import re
from collections.abc import Iterator, Sequence
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gmi_drl.errors import UsageError
from gmi_drl.replay.importing.episodes import Episode
from gmi_drl.replay.importing.hdf5 import Group, array_of, names_in, opened, reported, tree_in
from gmi_drl.replay.trees import leaves_of

EPISODE = re.compile(r"episode_(\d+)")

NAMES = {"rewards": "reward", "terminations": "terminated", "truncations": "truncated"}


def episodes_of_minari(paths: Sequence[Path]) -> Iterator[Episode]:
    """The episodes in files of Minari, file by file, each in the order of their numbers.

    Observations have a row more than there are steps. Numbers, also in dicts and tuples, become one vector `obs`; if
    there is anything else in them, parts are fields `obs/NAME`. Actions become one vector: first all numbers, then all
    choices, which Minari has as integers. What is in `infos` is left out.

    Raises:
        UsageError: if a file is no HDF5 file with episodes.
    """
    for path in paths:
        with opened(path) as file:
            numbers = sorted(int(match[1]) for name in names_in(file) if (match := EPISODE.fullmatch(name)))
            if not numbers:
                raise UsageError(f"{path} has no groups episode_0, episode_1, ...: it is no file of Minari")
            for number in numbers:
                group, place = f"episode_{number}", f"{path}: episode {number}"
                yield Episode(place, lambda file=file, group=group: _read(file, group))  # type: ignore[misc]


def _read(file: Group, name: str) -> dict[str, Any]:
    with reported(name):
        group = file[name]
        if missing := [one for one in ("observations", "actions", *NAMES) if one not in group]:
            raise UsageError(f"it has no {', '.join(missing)}")
        fields = {"obs": _obs(tree_in(group["observations"])), "action": _action(tree_in(group["actions"]))}
        return fields | {ours: array_of(group[theirs]) for theirs, ours in NAMES.items()}


def _obs(tree: Any) -> Any:
    """Numbers as one vector, in the order in which tasks have the parts; the tree itself if not all can be joined."""
    parts = list(leaves_of(tree).values())
    return _joined(parts) if _can_be_joined(parts) and not any(_is_whole(part) for part in parts) else tree


def _action(tree: Any) -> Any:
    """Numbers, then choices, as one vector; the tree itself if they cannot be joined."""
    parts = list(leaves_of(tree).values())
    return _joined(sorted(parts, key=_is_whole)) if _can_be_joined(parts) else tree


def _is_whole(part: NDArray[Any]) -> bool:
    return part.dtype.kind != "f"


def _can_be_joined(parts: Sequence[NDArray[Any]]) -> bool:
    return bool(parts) and all(part.ndim for part in parts) and len({len(part) for part in parts}) == 1


def _joined(parts: Sequence[NDArray[Any]]) -> NDArray[np.float32]:
    """Parts `[T, ...]` as `[T, K]`."""
    rows = [part.reshape(len(part), prod(part.shape[1:])) for part in parts]
    with np.errstate(over="ignore"):  # an import refuses what is not finite then
        return np.concatenate(rows, 1).astype(np.float32)
