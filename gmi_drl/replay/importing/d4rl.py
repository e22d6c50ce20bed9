"""Reads the datasets of D4RL: HDF5 files with one long array for each field."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gmi_drl.errors import UsageError
from gmi_drl.replay.importing.episodes import Episode, without_end
from gmi_drl.replay.importing.hdf5 import array_of, opened

NAMES = {"observations": "obs", "actions": "action", "rewards": "reward", "terminals": "terminated"}
TIMEOUTS, NEXT = "timeouts", "next_observations"

Arrays = Mapping[str, NDArray[Any]]


def episodes_of_d4rl(path: Path) -> Iterator[Episode]:
    """The episodes in a file of D4RL, in order.

    An episode ends where `terminals` or `timeouts` is set, and where `next_observations` is not the observation of the
    next step; numbers that are not finite tell nothing there. With `next_observations` the file's last step is an end,
    too. Else steps behind the last end are an episode that cannot be read.

    Raises:
        UsageError: if it is no such file, its arrays have different lengths or no numbers, a flag is neither 0 nor 1,
            or nothing tells where episodes are cut.
    """
    with opened(path) as file:
        if missing := [name for name in NAMES if name not in file]:
            raise UsageError(f"{path} has no {', '.join(missing)}: it is no file of D4RL")
        try:
            arrays = {name: array_of(file[name]) for name in (*NAMES, TIMEOUTS, NEXT) if name in file}
        except UsageError as error:
            raise UsageError(f"{path}: {error}") from None
    lengths = {name: len(array) if array.ndim else 0 for name, array in arrays.items()}
    if len(set(lengths.values())) > 1:
        told = ", ".join(f"{name} {length}" for name, length in lengths.items())
        raise UsageError(f"{path}: its arrays have different lengths: {told}")
    if TIMEOUTS not in arrays and NEXT not in arrays:
        raise UsageError(f"{path} has neither {TIMEOUTS} nor {NEXT}: nothing tells where an episode was cut off")
    for name in ("rewards", "terminals", TIMEOUTS):
        if name in arrays and arrays[name].size != len(arrays[name]):
            raise UsageError(f"{path}: {name} is {list(arrays[name].shape)}, not a number for each step")
        if name in arrays and name != "rewards" and not np.isin(arrays[name], (0, 1)).all():
            step = int((~np.isin(arrays[name], (0, 1))).reshape(-1).nonzero()[0][0])
            raise UsageError(f"{path}: {name} is {arrays[name].reshape(-1)[step]} in step {step}, not 0 or 1")
    begin = 0
    ends = _ends(arrays)
    for number, end in enumerate(ends):
        stretch = slice(begin, end + 1)
        yield Episode(
            f"{path}: episode {number} (steps {begin} to {end})",
            lambda stretch=stretch: _episode(arrays, stretch),  # type: ignore[misc]
        )
        begin = end + 1
    if begin < lengths["rewards"]:
        yield without_end(f"{path}: episode {len(ends)} (steps {begin} to {lengths['rewards'] - 1})")


def _ends(arrays: Arrays) -> list[int]:
    """The last steps of episodes."""
    ended = _flags(arrays["terminals"])
    if TIMEOUTS in arrays:
        ended = ended | _flags(arrays[TIMEOUTS])
    if NEXT in arrays and arrays[NEXT].shape == arrays["observations"].shape:
        after, now = arrays[NEXT][:-1], arrays["observations"][1:]
        differs = (after != now) & np.isfinite(after) & np.isfinite(now)
        jumps = differs.any(axis=tuple(range(1, differs.ndim)))
        ended = ended | np.append(jumps, [True] * min(1, len(ended)))
    return [int(step) for step in ended.nonzero()[0]]


def _episode(arrays: Arrays, stretch: slice) -> dict[str, Any]:
    fields: dict[str, Any] = {ours: arrays[theirs][stretch] for theirs, ours in NAMES.items()}
    fields["reward"], terminated = fields["reward"].reshape(-1), _flags(fields["terminated"])
    following = arrays.get(NEXT)
    if following is not None:
        if following.shape != arrays["observations"].shape:
            raise UsageError(
                f"{NEXT} is {list(following.shape)}, observations are {list(arrays['observations'].shape)}"
            )
        fields["obs"] = np.concatenate((fields["obs"], following[stretch][-1:]))
    truncated = np.zeros_like(terminated)
    truncated[-1] = not terminated[-1]
    return fields | {"terminated": terminated, "truncated": truncated}


def _flags(array: NDArray[Any]) -> NDArray[np.bool_]:
    return array.reshape(-1).astype(bool)
