"""Converts a nested state, such as that of rsl_rl's algorithm, to named tensors for safetensors, and back."""

import json
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

OUTLINE = "outline"
"""Name of the tensor with the structure of the state and its other values, JSON as bytes."""


def pack(state: Mapping[str, Any]) -> dict[str, Tensor]:
    """Flatten dicts (whose keys are texts or integers), lists, tensors and plain values to a dict of tensors.

    Tensors are copied, since networks may share some, which safetensors refuses. Tuples become lists.
    """
    tensors: dict[str, Tensor] = {}

    def outline(value: Any, path: str) -> Any:
        if isinstance(value, Tensor):
            tensors[path] = value.detach().clone()
            return {"tensor": path}
        if isinstance(value, Mapping):
            return {"dict": [[key, outline(inner, f"{path}/{key}")] for key, inner in value.items()]}
        if isinstance(value, list | tuple):
            return {"list": [outline(inner, f"{path}/{index}") for index, inner in enumerate(value)]}
        return {"value": value}

    text = json.dumps(outline(state, "state"))
    return {OUTLINE: torch.frombuffer(bytearray(text.encode()), dtype=torch.uint8), **tensors}


def unpack(packed: Mapping[str, Tensor]) -> dict[str, Any]:
    """The state that `pack` has flattened."""

    def filled(outline: dict[str, Any]) -> Any:
        ((kind, content),) = outline.items()
        if kind == "tensor":
            return packed[content]
        if kind == "dict":
            return {key: filled(inner) for key, inner in content}
        return [filled(inner) for inner in content] if kind == "list" else content

    state: dict[str, Any] = filled(json.loads(bytes(packed[OUTLINE].tolist())))
    return state
