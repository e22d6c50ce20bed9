"""Reads datasets of torch: of transitions, or of whole episodes."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

import torch
from torch import Tensor

from gmi_drl.errors import UsageError
from gmi_drl.replay.importing.checks import ENDS, OBS
from gmi_drl.replay.importing.episodes import Episode, without_end

NEXT = "next_"
"""Begins the names of observations after a step: `next_obs`, or `next_obs/camera` of those in parts."""


class Indexed(Protocol):
    """A dataset whose items have numbers, as `torch.utils.data.Dataset` has."""

    def __getitem__(self, index: int) -> Any:
        """An item: a dict of tensors."""

    def __len__(self) -> int:
        """How many there are."""


def episodes_of_dataset(dataset: Indexed, name: str = "dataset") -> Iterator[Episode]:
    """The episodes of a dataset.

    Args:
        dataset: If `reward` of its first item is a number, items are transitions in the order of time: `obs`, `action`,
            `reward`, `terminated`, `truncated`, optionally `next_obs`; of observations in parts `obs/PART` and
            `next_obs/PART`. An episode ends where one of the flags is set, or what follows is not the observation of
            the next item; numbers that are not finite tell nothing there. Items behind the last end are an episode that
            cannot be read. Else each item is an episode, as `import_episodes` takes it.
        name: For messages.

    Raises:
        UsageError: if an item is no dict with a reward, or a flag or an observation of a transition is none.
    """
    if not len(dataset):
        return
    if _tensor(_item(dataset, 0, name), "reward", f"{name}: item 0").ndim:
        for number in range(len(dataset)):
            yield Episode(f"{name}: item {number}", lambda number=number: _item(dataset, number, name))  # type: ignore[misc]
        return
    steps, begin = list[Mapping[str, Any]](), 0
    for number in range(len(dataset)):
        item, place = _item(dataset, number, name), f"{name}: item {number}"
        if steps and _is_cut(steps[-1], item, place):
            yield _episode(name, steps, begin)
            steps, begin = [], number
        steps.append(item)
        if any([_is_set(item, flag, place) for flag in ENDS]):
            yield _episode(name, steps, begin)
            steps, begin = [], number + 1
    if steps:
        yield without_end(f"{name}: items {begin} to {len(dataset) - 1}")


def _item(dataset: Indexed, number: int, name: str) -> Mapping[str, Any]:
    item = dataset[number]
    if not isinstance(item, Mapping) or "reward" not in item:
        raise UsageError(f"{name}: item {number} must be a dict with a reward, not {type(item).__name__}")
    return item


def _tensor(item: Mapping[str, Any], key: str, place: str) -> Tensor:
    try:
        return torch.as_tensor(item[key])
    except (KeyError, TypeError, ValueError, RuntimeError):
        there = f"is a {type(item[key]).__name__}, no array of numbers" if key in item else "is missing"
        raise UsageError(f"{place}: {key} {there}") from None


def _followers(item: Mapping[str, Any]) -> dict[str, str]:
    """The names of the observations after a step, with those of the observations before it."""
    return {key: key.removeprefix(NEXT) for key in item if key.split("/")[0] == NEXT + OBS}


def _is_cut(before: Mapping[str, Any], now: Mapping[str, Any], place: str) -> bool:
    """Whether an item does not follow the one before it."""
    pairs = [(_tensor(before, after, place), _tensor(now, own, place)) for after, own in _followers(before).items()]
    return any(after.shape != own.shape or _differ(after, own) for after, own in pairs)


def _differ(after: Tensor, own: Tensor) -> bool:
    return bool(((after != own) & after.isfinite() & own.isfinite()).any())


def _is_set(item: Mapping[str, Any], flag: str, place: str) -> bool:
    """Whether an item has this flag, and it is true."""
    if flag not in item:
        return False
    value = _tensor(item, flag, place)
    if value.numel() != 1 or value.item() not in (0, 1):
        raise UsageError(f"{place}: {flag} is {value.tolist()}, no truth value")
    return bool(value)


def _episode(name: str, steps: Sequence[Mapping[str, Any]], begin: int) -> Episode:
    def read() -> dict[str, Any]:
        if others := [number for number, step in enumerate(steps) if step.keys() != steps[0].keys()]:
            raise UsageError(f"item {begin + others[0]} has other fields than item {begin}")
        followers = _followers(steps[0])
        try:
            stacked = {
                key: torch.stack([torch.as_tensor(step[key]) for step in steps])
                for key in steps[0]
                if key not in followers
            }
            for after, own in followers.items():
                stacked[own] = torch.cat((stacked[own], torch.as_tensor(steps[-1][after])[None]))
        except (KeyError, TypeError, ValueError, RuntimeError) as error:
            raise UsageError(f"its items cannot be stacked: {error}") from None
        is_ended = any(bool(steps[-1].get(flag, False)) for flag in ENDS)
        if not is_ended:  # it was cut: the next item does not follow
            stacked["truncated"] = torch.arange(len(steps)) == len(steps) - 1
        return stacked

    return Episode(f"{name}: items {begin} to {begin + len(steps) - 1}", read)
