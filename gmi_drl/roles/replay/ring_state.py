"""The part of a checkpoint that is a ring: tensors by name."""

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from gmi_drl.replay import Ring
from gmi_drl.replay.checkpoint import flattened, nested
from gmi_drl.roles.replay.server_ring import ServerRing
from gmi_drl.run.checkpoint import prefixed, read_part, with_prefix

PART, NUMBERS, SERVER = "ring", "ring_numbers", "replay_server.step"


def saved_tensors(ring: Ring | ServerRing, step: int, *, is_first: bool) -> dict[str, Tensor]:
    """`ring_tensors`; of a server's table the step of its checkpoint, which the first GMI lets the server write."""
    if not isinstance(ring, ServerRing):
        return ring_tensors(ring)
    if is_first:
        ring.save(step)
    return {SERVER: torch.tensor(step)} if is_first else {}


def ring_tensors(ring: Ring) -> dict[str, Tensor]:
    """All that later samples depend on. The steps that there are, and no others, are views of the ring's memory."""
    with ring.snapshot() as state:
        tensors, numbers = flattened(state)
    whole = {name: torch.tensor(number) for name, number in numbers.items()}
    return prefixed(PART, tensors) | prefixed(NUMBERS, whole)


def load_ring(ring: Ring | ServerRing, state: Mapping[str, Tensor], *, goes_on: bool) -> None:
    """Continue from `saved_tensors`; if there are none, the ring stays empty.

    Args:
        ring: With the same sizes.
        state: Of the checkpoint.
        goes_on: Whether the environments go on with their episodes; if not, the last step of each is none to learn
            from, since another one follows it.

    Raises:
        UsageError: if a server's table is not of this checkpoint.
    """
    if isinstance(ring, ServerRing):
        if SERVER in state:
            ring.check_saved(int(state[SERVER]))
        return
    tensors = with_prefix(PART, state)
    if not tensors:
        return
    numbers = {name: int(number) for name, number in with_prefix(NUMBERS, state).items()}
    ring.load_state_dict(nested(tensors | numbers))
    if not goes_on:
        ring.cut()


def deal_anew(ring: Ring | ServerRing, parts: Iterable[Mapping[str, Tensor]], first: int) -> None:
    """Begin with the steps that the rings of other GMIs had of as many environments, if those were saved.

    A server's table stays as it is.

    Args:
        ring: Of this GMI.
        parts: The checkpoint's part of each of those GMIs, in order. They are read as far as needed.
        first: Number of this GMI's first environment, of those of all GMIs.

    Raises:
        UsageError: if a server's table is not of this checkpoint.
    """
    if isinstance(ring, ServerRing):
        for part in islice(parts, 1):  # that of the first GMI tells
            load_ring(ring, part, goes_on=False)
        return
    found: list[dict[str, Tensor]] = []
    begin, end = 0, first + ring.num_env
    for part in parts:
        num_env, steps = columns_of(part)
        if not steps or "episode" not in part:  # rings of rollouts have other fields
            return
        if own := range(max(first, begin), min(end, begin + num_env)):
            chosen = slice(own.start - begin, own.stop - begin)
            found.append({column: words[:, chosen] for column, words in rows_in_order(part).items()})
        begin += num_env
        if begin >= end:
            break
    if found:
        steps = min(len(words) for columns in found for words in columns.values())
        ring.begin_with({name: torch.cat([each[name][-steps:] for each in found], 1) for name in found[0]})


def saved_parts(checkpoint: Path, index: Mapping[str, Any]) -> Iterator[dict[str, Tensor]]:
    """Read the part of each GMI of a checkpoint, in order."""
    files = [Path(name).stem for name in index["parts"] if name.startswith("gmi-")]
    for name in sorted(files, key=lambda name: int(name.removeprefix("gmi-"))):
        yield read_part(checkpoint, name, index)


def columns_of(part: Mapping[str, Tensor]) -> tuple[int, int]:
    """The environments of the ring in a part of a checkpoint, and the steps of each that are there; 0 without one."""
    written = int(part.get(f"{NUMBERS}.counts.written", 0))
    if not written:
        return 0, 0
    num_env = int(part[f"{NUMBERS}.limiter.inserts"]) // written
    return num_env, len(next(iter(with_prefix(f"{PART}.rows", part).values()))) // num_env


def rows_in_order(part: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The rows of the ring in a part of a checkpoint, by column: `[T, num_env, words]`, oldest first."""
    (num_env, steps), written = columns_of(part), int(part[f"{NUMBERS}.counts.written"])
    newest = -(written % steps) if written > steps else 0
    rows = with_prefix(f"{PART}.rows", part)
    return {column: words.view(steps, num_env, -1).roll(newest, 0) for column, words in rows.items()}
