"""Trees of tensors as bytes: a small JSON header with the structure, followed by the tensors' bytes. No pickle.

In a header None, booleans, numbers, text and lists stand for themselves; the others are `{"tuple": [...]}`, `{"dict":
[[key, value], ...]}` and `{"tensor": ["float32", [2, 3]]}`. Tensors are in the order in which their bytes follow.
"""

import json
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from gmi_drl.errors import UsageError
from gmi_drl.units import human_bytes

MAX_HEADER_BYTES = 4 * 2**20
MAX_DEPTH = 64
MAX_DIMENSIONS = 64  # torch's own

_LEAVES = (bool, int, float, str)
_DTYPES = {
    str(dtype).removeprefix("torch."): dtype
    for dtype in vars(torch).values()
    if isinstance(dtype, torch.dtype) and not str(dtype).startswith("torch.q")  # quantized ones are more than bytes
}
_SAME_SIZE = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64, 16: torch.complex128}


@dataclass(frozen=True)
class Form:
    """The dtype and shape of a tensor whose bytes have not arrived yet."""

    dtype: torch.dtype
    shape: tuple[int, ...]

    @property
    def nbytes(self) -> int:
        """The size of its elements in bytes."""
        return math.prod(self.shape) * self.dtype.itemsize

    def empty(self, device: torch.device) -> Tensor:
        """An uninitialized tensor of this form."""
        return torch.empty(self.shape, dtype=self.dtype, device=device)


def encode(tree: Any) -> tuple[bytes, list[Tensor]]:
    """Encode a tree. Returns its header and its tensors, contiguous and without gradients, copied only if they are not.

    Args:
        tree: Dicts with keys of text or numbers, lists, tuples, None, bool, int, float, str and tensors on any device.
            A derived type (an OrderedDict, a named tuple, a Parameter) counts as its base type.

    Raises:
        UsageError: With its place, for anything else: also for a tensor that is sparse, nested, quantized or on `meta`,
            a tree deeper than `MAX_DEPTH`, or a header longer than `MAX_HEADER_BYTES`.
    """
    tensors: list[Tensor] = []
    node = _described(tree, tensors, "data", MAX_DEPTH)
    try:
        header = json.dumps(node, separators=(",", ":")).encode()
    except ValueError as error:  # an integer of thousands of digits
        raise UsageError(f"data cannot be sent: {error}") from None
    if len(header) > MAX_HEADER_BYTES:
        size, most = human_bytes(len(header)), human_bytes(MAX_HEADER_BYTES)
        raise UsageError(f"the data without its tensors takes {size}, more than {most}: send numbers as tensors")
    return header, tensors


def decode(header: bytes | bytearray, body_bytes: int) -> Any:
    """Decode a header into its tree, with a `Form` in place of each tensor. Everything in it is checked.

    Args:
        header: From another process.
        body_bytes: The number of bytes that follow, which the tensors must fill.

    Raises:
        ValueError: If `encode` does not make such a header, or its tensors take more or fewer bytes.
    """
    try:
        node = json.loads(header)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    forms: list[Form] = []
    tree = _understood(node, forms, MAX_DEPTH)
    needed = sum(form.nbytes for form in forms)
    if needed != body_bytes:
        raise ValueError(f"its tensors take {needed} bytes, but {body_bytes} follow")
    return tree


def filled(tree: Any, make: Callable[[Form], Tensor]) -> Any:
    """A tree of `decode` with a tensor in place of each `Form`; `make` is called in the order of their bytes."""
    match tree:
        case Form():
            return make(tree)
        case list():
            return [filled(item, make) for item in tree]
        case tuple():
            return tuple([filled(item, make) for item in tree])
        case dict():
            return {key: filled(value, make) for key, value in tree.items()}
    return tree


def raw(tensor: Tensor) -> Tensor:
    """The bytes of a contiguous tensor as a uint8 vector `[nbytes]` over the same memory."""
    return tensor.reshape(-1).view(torch.uint8)


def _described(tree: Any, tensors: list[Tensor], place: str, depth: int) -> Any:
    """A tree as it is in a header; its tensors are appended to `tensors`."""
    if depth < 0:
        raise UsageError(f"data is nested more than {MAX_DEPTH} levels deep: {place[:200]}")
    match tree:
        case Tensor():
            tensors.append(_plain(tree, place))
            return {"tensor": [str(tree.dtype).removeprefix("torch."), list(tree.shape)]}
        case None | bool() | int() | float() | str():
            return tree
        case list() | tuple():
            items = [_described(item, tensors, f"{place}[{i}]", depth - 1) for i, item in enumerate(tree)]
            return {"tuple": items} if isinstance(tree, tuple) else items
        case dict():
            if strange := [key for key in tree if not _is_leaf(key)]:
                raise UsageError(f"{place} has a key {strange[0]!r}: keys must be text, numbers or None")
            pairs = tree.items()
            return {"dict": [[key, _described(item, tensors, f"{place}[{key!r}]", depth - 1)] for key, item in pairs]}
    known = "dicts, lists, tuples, None, bool, int, float, str and tensors"
    raise UsageError(f"{place} is a {type(tree).__name__}, which cannot be sent: {known} can")


def _plain(tensor: Tensor, place: str) -> Tensor:
    """A contiguous tensor with the same elements, copied only if necessary."""
    plain = tensor.detach()
    if plain.layout != torch.strided or plain.is_nested or plain.dtype not in _DTYPES.values():
        raise UsageError(
            f"{place} is a tensor that is sparse, nested or quantized, which cannot be sent: make it dense"
        )
    if plain.device.type == "meta":
        raise UsageError(f"{place} is a tensor on `meta`, which has no data")
    plain = plain.resolve_conj().resolve_neg()
    if plain.is_contiguous():
        return plain
    return plain.view(_SAME_SIZE[plain.dtype.itemsize]).contiguous()  # some dtypes cannot be copied as such


def _understood(node: Any, forms: list[Form], depth: int) -> Any:
    """A part of a header as a tree; its forms are appended to `forms`."""
    if depth < 0:
        raise ValueError("it is nested too deeply")
    if _is_leaf(node):
        return node
    match node:
        case list():
            return [_understood(item, forms, depth - 1) for item in node]
        case {"tuple": list() as items, **rest} if not rest:
            return tuple([_understood(item, forms, depth - 1) for item in items])
        case {"dict": list() as pairs, **rest} if not rest:
            return _understood_dict(pairs, forms, depth)
        case {"tensor": [str() as dtype, list() as shape], **rest} if not rest:
            forms.append(form := _understood_form(dtype, shape))
            return form
    raise ValueError(f"it has {str(node)[:100]} where a part of a tree is expected")


def _understood_dict(pairs: list[Any], forms: list[Form], depth: int) -> dict[Any, Any]:
    result: dict[Any, Any] = {}
    for pair in pairs:
        match pair:
            case [key, value] if _is_leaf(key) and key not in result:
                result[key] = _understood(value, forms, depth - 1)
            case _:
                raise ValueError(f"it has {str(pair)[:100]} where a key and its value are expected")
    return result


def _understood_form(dtype: str, shape: list[Any]) -> Form:
    if dtype not in _DTYPES:
        raise ValueError(f"it has a tensor of an unknown dtype {dtype[:100]!r}")
    sizes = tuple([size for size in shape if type(size) is int and size >= 0])
    # Torch counts elements, and steps between them also where there are none, in 63 bits.
    if (
        len(sizes) != len(shape)
        or len(sizes) > MAX_DIMENSIONS
        or math.prod(max(size, 1) for size in sizes) * _DTYPES[dtype].itemsize >= 2**63
    ):
        raise ValueError(f"it has a tensor of an impossible shape {str(shape)[:100]}")
    return Form(_DTYPES[dtype], sizes)


def _is_leaf(value: Any) -> bool:
    return value is None or isinstance(value, _LEAVES)
