"""`import_several`: recorded episodes of several tasks in one folder, for one policy (Gato, arXiv 2205.06175)."""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import torch
from torch import Tensor

from gmi_drl.errors import UsageError
from gmi_drl.replay.episodes import EpisodeSet
from gmi_drl.replay.importing.episodes import import_episodes
from gmi_drl.workload.several import padded_action, padded_obs

BEST_SHARE = 0.1
"""Part of the episodes of a task whose mean return counts as 1."""

_KEPT = ("reward", "terminated", "truncated")


def import_several(folders: Mapping[str, Path | str], into: Path | str) -> str:
    """Write the episodes of several tasks into one folder, brought to one size, their returns scaled to one.

    Args:
        folders: Of episodes, by the name of their task.
        into: As of `import_episodes`.

    Returns:
        The name of the task of all together, with the scales of their returns: `several:A+B{"units": [...]}`.

    Raises:
        UsageError: if there is one task alone, or its episodes have no vectors as observations and numbers as actions.
    """
    if len(folders) < 2:
        raise UsageError(f"several tasks are two at least, not {len(folders)}: learn from its folder itself")
    sets = [EpisodeSet(folder) for folder in folders.values()]
    units = [_unit(episodes) for episodes in sets]
    import_episodes(_padded(sets, units), into)
    return f"several:{'+'.join(folders)}{json.dumps({'units': units})}"


def _unit(episodes: EpisodeSet) -> float:
    """The mean return of the best episodes, rounded as a name has it."""
    best = episodes.returns.topk(max(1, round(BEST_SHARE * len(episodes)))).values.mean()
    unit = float(f"{float(best):.6g}")
    if unit <= 0:
        raise UsageError(f"{episodes.folder}: its best episodes have a return of {unit:g}, which cannot be scaled to 1")
    return unit


def _padded(sets: Sequence[EpisodeSet], units: Sequence[float]) -> Iterator[dict[str, Tensor]]:
    sizes = [[_size(episodes, name) for episodes in sets] for name in ("obs", "action")]
    for number, (episodes, unit) in enumerate(zip(sets, units, strict=True)):
        for one, length in enumerate(episodes.lengths.tolist()):
            rows = length + int(episodes.knows_last[one])
            first = int(episodes.first[one])
            fields = {name: value[first : first + rows] for name, value in episodes.storage.rows.fields.items()}
            kept = {name: fields[name][:length].clone() for name in _KEPT if name in fields}
            yield kept | {
                "obs": padded_obs(fields["obs"], number, sizes[0]),
                "action": padded_action(fields["action"][:length], sizes[1]),
                "reward": kept["reward"] / unit,
            }


def _size(episodes: EpisodeSet, name: str) -> int:
    field = episodes.signature.by_name.get(name)
    if field is None or len(field.shape) != 1 or field.dtype != torch.float32:
        raise UsageError(f"{episodes.folder} has {field or f'no {name}'}: several tasks have vectors of float32")
    return field.shape[0]
