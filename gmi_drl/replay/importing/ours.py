"""Reads folders that `gmi-drl serve --experience` wrote."""

from collections.abc import Iterator
from pathlib import Path

import torch
from torch import Tensor

from gmi_drl.replay.files.block import Block
from gmi_drl.replay.files.dataset import ExperienceDataset
from gmi_drl.replay.importing.episodes import Episode

Rows = dict[str, Tensor]


def episodes_of_experience(folder: Path) -> Iterator[Episode]:
    """The whole episodes in a folder, by GMI, in the order in which they ended.

    Those that were running when the serving ended, and those in which a step went wrong, are left out. Observations of
    several parts stay one tensor.

    Raises:
        UsageError: if it is no such folder, or a shard is broken.
    """
    dataset = ExperienceDataset(folder)
    for gmi_id in sorted(dataset.index.gmis):
        worlds = [_World() for _ in range(dataset.index.gmis[gmi_id].num_env)]
        for block in dataset.blocks(gmi_id):
            for world, step, rows in _ended(worlds, block):
                place = f"{folder}: GMI {gmi_id}, environment {world}, episode {worlds[world].ended}"
                worlds[world].ended += 1
                yield Episode(f"{place} (ends in step {step} of a shard)", lambda rows=rows: rows)  # type: ignore[misc]


class _World:
    """The steps of an environment's episode so far."""

    def __init__(self) -> None:
        self.parts = list[Rows]()
        self.ended = 0


def _ended(worlds: list[_World], block: Block) -> Iterator[tuple[int, int, Rows]]:
    """Go on with the episodes of all environments, and yield those that end: environment, step, rows."""
    steps = {"obs": block.obs, "action": block.action, "reward": block.reward}
    steps |= {"terminated": block.terminated, "truncated": block.truncated}
    finals = {(t, world): row for (t, world), row in zip(block.final_at.tolist(), block.final_obs, strict=True)}
    cuts = (block.terminated | block.truncated | ~block.valid).t()
    for world, of in enumerate(worlds):
        begin = 0
        for cut in cuts[world].nonzero().flatten().tolist():
            if block.valid[cut, world]:
                of.parts.append({name: value[begin : cut + 1, world] for name, value in steps.items()})
                rows = {name: torch.cat([part[name] for part in of.parts]) for name in steps}
                if block.knows_final_obs:
                    rows["obs"] = torch.cat((rows["obs"], finals[cut, world][None]))
                yield world, cut, rows
            of.parts, begin = [], cut + 1
        if begin < block.steps:
            of.parts.append({name: value[begin:, world].clone() for name, value in steps.items()})
