"""How mini-batches divide transitions, or, for policies with memories, whole sequences of them."""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor


def transitions_of(sequences: Tensor, length: int, num_env: int, parts: int) -> Tensor:
    """The order of transitions by which each part of an order of sequences lies step by step, `[L, B]`.

    Args:
        sequences: The order of the Q sequences `[Q]`: sequence `q` is of environment `q % num_env`, and sequences are
            ordered in time as transitions are.
        length: L, steps of a sequence.
        num_env: N, environments of a rollout.
        parts: Parts of Q // parts sequences each; the remainder is a last, smaller part.

    Returns:
        Places `[Q * L]` of transitions in memory `[..., T, N]`.
    """
    first = sequences.div(num_env, rounding_mode="floor") * (length * num_env) + sequences % num_env
    steps = torch.arange(length, device=sequences.device)[:, None] * num_env
    return torch.cat([(steps + part).flatten() for part in torch.split(first, sizes_of(len(first), parts))])


def sizes_of(units: int, parts: int) -> list[int]:
    """Units of each of equal parts, and of what remains, if anything does."""
    rest = [units % parts] if units % parts else []
    return [units // parts] * parts + rest


def cut(fields: Mapping[str, Tensor | None], sizes: Sequence[int], units: int) -> list[dict[str, Tensor | None]]:
    """Views of the fields `[units * L, ...]` or `[units, ...]`, in parts of so many units each."""
    pieces = {
        name: [None] * len(sizes) if field is None else _cut(field, sizes, len(field) // units)
        for name, field in fields.items()
    }
    return [{name: piece[i] for name, piece in pieces.items()} for i in range(len(sizes))]


def _cut(field: Tensor, sizes: Sequence[int], each: int) -> list[Tensor]:
    ends = torch.tensor(sizes).cumsum(0).tolist()
    return [field[(end - size) * each : end * each] for end, size in zip(ends, sizes, strict=True)]
