"""Rows of bytes, in which the fields of a column lie side by side, and the fields as views of them."""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from functools import cached_property
from math import prod
from typing import Any, NamedTuple

import torch
from numpy.typing import NDArray
from torch import Tensor

from gmi_drl.replay.fields import Signature

JOINED = 512
"""Rows from which on the fields of a column are written row by row, in 0.8 of the time: each row comes into the cache
once."""


class Joint(NamedTuple):
    """A column whose fields have one type and lie side by side.

    Args:
        names: Of the fields, in order.
        rows: `[steps, width]` of that type.
        unused: Numbers at the end of each row.
    """

    names: tuple[str, ...]
    rows: Tensor
    unused: int

    def write(self, first: int, fields: dict[str, Tensor]) -> None:
        """Write the fields and take them out of the dict, if all are there, of its type and on the CPU."""
        values = [fields[name] for name in self.names if name in fields]
        if len(values) < len(self.names):
            return
        if any(value.dtype != self.rows.dtype or value.device.type != "cpu" for value in values):
            return
        count = len(values[0])
        parts = [value.view(count, -1) if value.is_contiguous() else value.reshape(count, -1) for value in values]
        if self.unused:
            parts.append(self.rows.new_zeros(count, self.unused))
        torch.cat(parts, 1, out=self.rows[first : first + count])
        for name in self.names:
            del fields[name]


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

    @cached_property
    def _joint(self) -> list["Joint"]:
        """Columns on the CPU whose fields have one type and lie side by side."""
        found = []
        for column, rows in self.words.items():
            views, end = self.signature.views[column], 0
            for view in views:
                end = end + prod(view.shape) if view.first == end and view.dtype == views[0].dtype else -1
            if end >= 0 and len(views) > 1 and rows.device.type == "cpu":
                typed = rows.view(views[0].dtype)
                found.append(Joint(tuple(view.name for view in views), typed, typed.shape[-1] - end))
        return found

    def write(self, first: int, fields: Mapping[str, Tensor]) -> None:
        """Write rows from `first` on: `[n, *shape]` for each field that is written, on any device."""
        arrays, left = self.arrays, dict(fields)
        for joint in self._joint if fields and len(next(iter(fields.values()))) >= JOINED else ():
            joint.write(first, left)
        for name, value in left.items():
            if name in arrays and value.device.type == "cpu":
                arrays[name][first : first + len(value)] = value.numpy()
            else:
                self.fields[name][first : first + len(value)].copy_(value)

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
