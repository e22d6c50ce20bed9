"""Rows of bytes, in which the fields of a column lie side by side, and the fields as views of them."""

from collections.abc import Iterable, Mapping

import torch
from torch import Tensor

from gmi_drl.replay.fields import Signature


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
            by_type = {dtype: rows.view(dtype) for dtype in {view.dtype for view in signature.views[column]}}
            for view in signature.views[column]:
                typed = by_type[view.dtype]
                sizes, strides = (*typed.shape[:-1], *view.shape), (*typed.stride()[:-1], *view.strides)
                self.fields[view.name] = typed.as_strided(sizes, strides, typed.storage_offset() + view.first)

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

    def fits(self, lead: tuple[int, ...], columns: Iterable[str]) -> bool:
        """Whether these are rows of these sizes, with these columns among theirs."""
        words = self.words
        return next(iter(words.values())).shape[:-1] == lead and all(name in words for name in columns)

    @property
    def lead(self) -> tuple[int, ...]:
        """Sizes before those of a step."""
        return tuple(next(iter(self.words.values())).shape[:-1])

    @property
    def bytes(self) -> int:
        """Bytes of all rows."""
        return sum(8 * rows.numel() for rows in self.words.values())
