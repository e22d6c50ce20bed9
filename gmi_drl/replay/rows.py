"""Rows of bytes, in which the fields of a column lie side by side, and the fields as views of them."""

from collections.abc import Mapping

import torch
from torch import Tensor

from gmi_drl.replay.fields import Field, Signature


class Rows:
    """Steps `[*lead]` in packed memory: for each column int64 words, of which its fields are views.

    Args:
        signature: Of a step.
        words: For each column int64 `[*lead, row_bytes / 8]`, contiguous.

    Attributes:
        words: As given.
        fields: `[*lead, *shape]` by name, views of the words. Writing to them writes the rows.
    """

    def __init__(self, signature: Signature, words: Mapping[str, Tensor]) -> None:
        self.signature, self.words = signature, dict(words)
        self.fields: dict[str, Tensor] = {}
        for column, rows in self.words.items():
            by_type: dict[torch.dtype, Tensor] = {}
            for field in signature.of_column(column):
                typed = by_type.get(field.dtype)
                if typed is None:
                    typed = by_type[field.dtype] = rows.view(field.dtype)
                self.fields[field.name] = _view(typed, field, signature.offsets[field.name])

    @classmethod
    def empty(
        cls,
        signature: Signature,
        lead: tuple[int, ...],
        *,
        device: torch.device | str = "cpu",
        columns: tuple[str, ...] | None = None,
    ) -> "Rows":
        """New rows with any content, of some columns or of all."""
        return cls(
            signature,
            {
                column: torch.empty(*lead, signature.row_bytes(column) // 8, dtype=torch.int64, device=device)
                for column in columns or signature.columns
            },
        )

    @property
    def lead(self) -> tuple[int, ...]:
        """Sizes before those of a step."""
        return tuple(next(iter(self.words.values())).shape[:-1])

    @property
    def bytes(self) -> int:
        """Bytes of all rows."""
        return sum(8 * rows.numel() for rows in self.words.values())


def _view(typed: Tensor, field: Field, offset: int) -> Tensor:
    """The view of a field in rows that are seen as its type."""
    inner, step = [], 1
    for size in reversed(field.shape):
        inner.append(step)
        step *= size
    lead = typed.dim() - 1
    start = typed.storage_offset() + offset // field.dtype.itemsize
    return typed.as_strided((*typed.shape[:lead], *field.shape), (*typed.stride()[:lead], *reversed(inner)), start)
