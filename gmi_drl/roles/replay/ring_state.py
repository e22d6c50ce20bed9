"""The part of a checkpoint that is a ring: tensors by name."""

from collections.abc import Iterable, Mapping
from itertools import islice

import torch
from torch import Tensor

from gmi_drl.replay import Ring
from gmi_drl.replay.checkpoint import flattened, nested
from gmi_drl.roles.replay.server_ring import ServerRing
from gmi_drl.run.checkpoint import prefixed, with_prefix

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
        num_env, rows = part["episode"].shape[1], with_prefix(f"{PART}.rows", part)
        if not rows:
            return
        if own := range(max(first, begin), min(end, begin + num_env)):
            written = int(part[f"{NUMBERS}.counts.written"])
            chosen = slice(own.start - begin, own.stop - begin)
            found.append({column: _in_order(words, num_env, written)[:, chosen] for column, words in rows.items()})
        begin += num_env
        if begin >= end:
            break
    steps = min(len(words) for columns in found for words in columns.values())
    if steps:
        ring.begin_with({name: torch.cat([each[name][-steps:] for each in found], 1) for name in found[0]})


def _in_order(words: Tensor, num_env: int, written: int) -> Tensor:
    """The rows of a ring as `[T, num_env, words]`, oldest first, of the `written` steps that it had in all."""
    steps = len(words) // num_env
    return words.view(steps, num_env, -1).roll(-(written % steps) if written > steps else 0, 0)
