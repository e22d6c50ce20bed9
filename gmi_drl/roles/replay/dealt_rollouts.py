"""Rings of rollouts of a checkpoint that are dealt out to trainers of another layout."""

from collections.abc import Callable, Iterable, Mapping

import torch
from torch import Tensor

from gmi_drl.replay import Ring
from gmi_drl.replay.rows import Rows
from gmi_drl.replay.windows import VALID
from gmi_drl.roles.replay.ring_state import columns_of, rows_in_order

Part = Mapping[str, Tensor]


def deal_rollouts(ring: Ring, parts: Callable[[], Iterable[Part]], first: int, everyone: int) -> None:
    """Begin with the steps that the rings of other trainers had, if those were saved and are rings of rollouts.

    Which environment a rollout is of does not matter to a ring. So the newest rows of each environment, one environment
    after the other, are one line, which is cut into as many pieces of one length as there are environments now. No
    window goes from one of the former environments into the next.

    Args:
        ring: Of this trainer.
        parts: Reads the checkpoint's part of each of those trainers, in order. Called twice: one part is held at once.
        first: Number of this trainer's first environment, of those of all trainers' rings.
        everyone: Those of all trainers' rings.
    """
    there = [columns_of(part) for part in parts() if "episode" not in part]  # GMIs that act have one
    former, steps = sum(num_env for num_env, _ in there), min((steps for _, steps in there), default=0)
    if not steps:
        return
    steps = min(steps, -(-everyone * ring.steps // former))
    length = min(ring.steps, former * steps // everyone)
    if not length:
        return
    begin, end = first * length, (first + ring.num_env) * length
    at, found = 0, list[dict[str, Tensor]]()
    for part in parts():
        newest = {name: words[-steps:].transpose(0, 1).flatten(0, 1) for name, words in rows_in_order(part).items()}
        count = len(next(iter(newest.values())))
        Rows(ring.storage.signature, newest).fields["flags"][steps - 1 :: steps] &= ~VALID & 0xFF
        own = slice(max(0, begin - at), max(0, end - at))
        found.append({name: words[own].clone() for name, words in newest.items()})
        at += count
    line = {name: torch.cat([each[name] for each in found]) for name in found[0]}
    ring.begin_with(
        {name: words.view(ring.num_env, length, -1).transpose(0, 1).contiguous() for name, words in line.items()}
    )
