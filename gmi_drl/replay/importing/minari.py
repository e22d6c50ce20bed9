"""Reads the datasets of Minari: HDF5 files with a group for each episode."""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from gmi_drl.errors import UsageError
from gmi_drl.replay.importing.episodes import Episode
from gmi_drl.replay.importing.hdf5 import Group, array_of, names_in, opened, reported, tree_in

EPISODE = re.compile(r"episode_(\d+)")

NAMES = {"rewards": "reward", "terminations": "terminated", "truncations": "truncated"}


def episodes_of_minari(paths: Sequence[Path]) -> Iterator[Episode]:
    """The episodes in files of Minari, file by file, each in the order of their numbers.

    Observations have a row more than there are steps. Those of dicts and tuples are fields `obs/NAME`, actions
    likewise. What is in `infos` is left out.

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
        fields = {"obs": tree_in(group["observations"]), "action": tree_in(group["actions"])}
        return fields | {ours: array_of(group[theirs]) for theirs, ours in NAMES.items()}
