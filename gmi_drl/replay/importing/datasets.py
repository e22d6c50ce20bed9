"""Reads datasets of torch: of transitions, or of whole episodes."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

import torch

from gmi_drl.errors import UsageError
from gmi_drl.replay.importing.episodes import Episode

NEXT_OBS = "next_obs"


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
            `reward`, `terminated`, `truncated`, optionally `next_obs`. An episode ends where one of the flags is set,
            or `next_obs` is not the `obs` of the next item; the last one is left out if it has no end. Else each item
            is an episode, as `import_episodes` takes it.
        name: For messages.

    Raises:
        UsageError: if an item is no dict with a reward.
    """
    if not len(dataset):
        return
    first = dataset[0]
    if not isinstance(first, Mapping) or "reward" not in first:
        raise UsageError(f"{name}: an item must be a dict with a reward, not {type(first).__name__}")
    if torch.as_tensor(first["reward"]).ndim:
        for number in range(len(dataset)):
            yield Episode(f"{name}: item {number}", lambda number=number: dataset[number])  # type: ignore[misc]
        return
    steps, begin = list[Mapping[str, Any]](), 0
    for number in range(len(dataset)):
        item = dataset[number]
        if steps and _is_cut(steps[-1], item):
            yield _episode(name, steps, begin)
            steps, begin = [], number
        steps.append(item)
        if bool(item.get("terminated", False)) or bool(item.get("truncated", False)):
            yield _episode(name, steps, begin)
            steps, begin = [], number + 1


def _is_cut(before: Mapping[str, Any], now: Mapping[str, Any]) -> bool:
    return NEXT_OBS in before and not torch.equal(torch.as_tensor(before[NEXT_OBS]), torch.as_tensor(now["obs"]))


def _episode(name: str, steps: Sequence[Mapping[str, Any]], begin: int) -> Episode:
    def read() -> dict[str, Any]:
        if others := [number for number, step in enumerate(steps) if step.keys() != steps[0].keys()]:
            raise UsageError(f"item {begin + others[0]} has other fields than item {begin}")
        try:
            stacked = {
                key: torch.stack([torch.as_tensor(step[key]) for step in steps]) for key in steps[0] if key != NEXT_OBS
            }
        except (TypeError, ValueError, RuntimeError) as error:
            raise UsageError(f"its items cannot be stacked: {error}") from None
        if NEXT_OBS in steps[-1] and "obs" in stacked:
            stacked["obs"] = torch.cat((stacked["obs"], torch.as_tensor(steps[-1][NEXT_OBS])[None]))
        is_ended = any(bool(steps[-1].get(flag, False)) for flag in ("terminated", "truncated"))
        if not is_ended:  # it was cut: the next item does not follow
            stacked["truncated"] = torch.arange(len(steps)) == len(steps) - 1
        return stacked

    return Episode(f"{name}: items {begin} to {begin + len(steps) - 1}", read)
