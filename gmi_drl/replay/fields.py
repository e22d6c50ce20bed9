"""What a step of experience consists of: fields, the columns that they share, and where they lie in a row of bytes."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import NamedTuple

import torch
from torch import Tensor

from gmi_drl.errors import UsageError

ROW_ALIGNMENT = 8
"""Rows are a multiple of this many bytes long, so that they can be copied as int64, and of the largest item's."""


@dataclass(frozen=True)
class Field:
    """A part of each step.

    Args:
        name: Unique in its signature.
        shape: Of one step.
        dtype: As it is stored. Any type but quantised ones.
        column: Fields of one column lie in one row of bytes and are gathered by one copy (the columns of GEAR 3.2).
            Fields that are used together share a column; a large field may have one for itself.
    """

    name: str
    shape: tuple[int, ...] = ()
    dtype: torch.dtype = torch.float32
    column: str = "step"

    @property
    def bytes(self) -> int:
        """Bytes of one step."""
        return prod(self.shape) * self.dtype.itemsize

    def __str__(self) -> str:
        return f"{self.name} {_kind(self.shape, self.dtype)}"


class View(NamedTuple):
    """Where a field lies in a row that is seen as its type, in numbers of that type."""

    name: str
    dtype: torch.dtype
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    first: int


class Signature:
    """The fields of a step, in order.

    Args:
        fields: At least one; no two of one name.

    Raises:
        UsageError: if there is no field, a name is there twice, or a size is not positive.
    """

    def __init__(self, fields: tuple[Field, ...] | list[Field]) -> None:
        self.fields = tuple(fields)
        names = [field.name for field in self.fields]
        if not names:
            raise UsageError("a signature needs 1 field at least")
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise UsageError(f"fields are there twice: {', '.join(twice)}")
        if empty := [str(field) for field in self.fields if field.bytes < 1]:
            raise UsageError(f"fields without a number: {', '.join(empty)}")
        self.columns = tuple(dict.fromkeys(field.column for field in self.fields))

    @cached_property
    def by_name(self) -> dict[str, Field]:
        """The fields by name."""
        return {field.name: field for field in self.fields}

    @cached_property
    def offsets(self) -> dict[str, int]:
        """First byte of each field in the row of its column: a multiple of its item size."""
        return {name: start for column in self.columns for name, start in self._laid_out(column)[0].items()}

    @cached_property
    def views(self) -> dict[str, tuple[View, ...]]:
        """Where the fields of each column lie."""
        return {column: tuple(self._view(field) for field in self.of_column(column)) for column in self.columns}

    def of_column(self, column: str) -> tuple[Field, ...]:
        """The fields of a column, in order."""
        return tuple(field for field in self.fields if field.column == column)

    def row_bytes(self, column: str) -> int:
        """Bytes of a row of a column."""
        return self._row_bytes[column]

    @cached_property
    def _row_bytes(self) -> dict[str, int]:
        return {column: self._laid_out(column)[1] for column in self.columns}

    @property
    def step_bytes(self) -> int:
        """Bytes of a step in all columns."""
        return sum(self.row_bytes(column) for column in self.columns)

    def check(self, fields: Mapping[str, Tensor], lead: tuple[int, ...] | None = None) -> None:
        """Raise unless there are just these fields, each `[*lead, *shape]` of its type.

        Args:
            fields: Tensors by name.
            lead: Sizes before those of a step; None for any one size, the same for all.

        Raises:
            UsageError: with every mistake.
        """
        if lead is None and fields:
            lead = tuple(next(iter(fields.values())).shape[:1])
        if len(fields) == len(self.fields) and all(
            (value := fields.get(field.name)) is not None
            and value.dtype == field.dtype
            and value.shape == (*(lead or ()), *field.shape)
            for field in self.fields
        ):
            return
        got = {name: _kind(tuple(value.shape), value.dtype) for name, value in fields.items()}
        wanted = {field.name: _kind((*(lead or ()), *field.shape), field.dtype) for field in self.fields}
        raise UsageError("steps do not match the signature: " + "; ".join(_differences(got, wanted)))

    def difference(self, other: "Signature") -> str | None:
        """How another signature differs, all differences in one line; None if it does not."""
        own, theirs = (
            {field.name: f"{_kind(field.shape, field.dtype)} in {field.column}" for field in signature.fields}
            for signature in (self, other)
        )
        lines = _differences(theirs, own)
        if not lines and list(own) != list(theirs):
            lines = [f"the order is {', '.join(theirs)}, not {', '.join(own)}"]
        return "; ".join(lines) or None

    def to_json(self) -> str:
        """As JSON, which `from_json` reads."""
        fields = [[field.name, list(field.shape), _type_name(field.dtype), field.column] for field in self.fields]
        return json.dumps({"fields": fields, "structure": None})  # as ever: checkpoints compare texts

    @classmethod
    def from_json(cls, text: str) -> "Signature":
        """Read what `to_json` wrote.

        Raises:
            UsageError: if it is something else.
        """
        try:
            read = json.loads(text)
            fields = [
                Field(str(name), tuple(int(size) for size in shape), _type(kind), str(column))
                for name, shape, kind, column in read["fields"]
            ]
            return cls(fields)
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            raise UsageError(f"not a signature: {type(error).__name__}: {error}") from None

    def _view(self, field: Field) -> View:
        strides = tuple(prod(field.shape[place + 1 :]) for place in range(len(field.shape)))
        return View(field.name, field.dtype, field.shape, strides, self.offsets[field.name] // field.dtype.itemsize)

    def _laid_out(self, column: str) -> tuple[dict[str, int], int]:
        offsets, end = {}, 0
        for field in self.of_column(column):
            offsets[field.name] = _rounded(end, field.dtype.itemsize)
            end = offsets[field.name] + field.bytes
        largest = max(field.dtype.itemsize for field in self.of_column(column))
        return offsets, _rounded(end, max(ROW_ALIGNMENT, largest))


def _rounded(count: int, multiple: int) -> int:
    return -(-count // multiple) * multiple


def _kind(shape: tuple[int, ...], dtype: torch.dtype) -> str:
    return f"{_type_name(dtype)}[{', '.join(map(str, shape))}]"


def _type_name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _type(name: str) -> torch.dtype:
    dtype = getattr(torch, name)
    if not isinstance(dtype, torch.dtype):
        raise TypeError(f"{name} is no type of numbers")
    return dtype


def _differences(got: Mapping[str, str], wanted: Mapping[str, str]) -> list[str]:
    wrong = [f"{name} is {got[name]}, not {kind}" for name, kind in wanted.items() if got.get(name, kind) != kind]
    missing = [f"{name} is missing" for name in wanted if name not in got]
    unknown = [f"{name} is unknown (known: {', '.join(wanted)})" for name in got if name not in wanted]
    return wrong + missing + unknown
