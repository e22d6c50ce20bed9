"""Rows of bytes, in which the fields of a column lie side by side, and the fields as views of them."""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from functools import cached_property
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor

from gmi_drl.replay.fields import Signature


class Rows:
    """Steps `[*lead]` in packed memory: for each column int64 words, of which its fields are views.

    Args:
        signature: Of a step.
        words: For each column int64 `[*lead, row_bytes / 8]`, contiguous.

    Attributes:
        words: As given.
        lead: Sizes before those of a step.
    """

    def __init__(self, signature: Signature, words: Mapping[str, Tensor]) -> None:
        self.signature, self.words = signature, dict(words)
        self.lead = tuple(next(iter(self.words.values())).shape[:-1]) if words else ()

    @cached_property
    def fields(self) -> dict[str, Tensor]:
        """`[*lead, *shape]` by name, views of the words. Writing to them writes the rows."""
        found: dict[str, Tensor] = {}
        for column, rows in self.words.items():
            by_type = {dtype: rows.view(dtype) for dtype in {view.dtype for view in self.signature.views[column]}}
            for view in self.signature.views[column]:
                typed = by_type[view.dtype]
                sizes, strides = (*typed.shape[:-1], *view.shape), (*typed.stride()[:-1], *view.strides)
                found[view.name] = typed.as_strided(sizes, strides, typed.storage_offset() + view.first)
        return found

    @cached_property
    def arrays(self) -> dict[str, NDArray[Any]]:
        """Fields as arrays of the same memory, which are written faster. GPUs' and types that numpy lacks have none."""
        found: dict[str, NDArray[Any]] = {}
        for name, field in self.fields.items():
            if field.device.type == "cpu":
                with suppress(TypeError):
                    found[name] = field.numpy()
        return found

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
        return self.lead == lead and self.words.keys() >= set(columns)

    @property
    def bytes(self) -> int:
        """Bytes of all rows."""
        return sum(8 * rows.numel() for rows in self.words.values())
