"""Files of safetensors, written tensor by tensor: `safetensors.torch.save` needs twice the memory of all of them."""

import json
from collections.abc import Iterator, Mapping

import torch
from torch import Tensor

KINDS = {
    torch.float64: "F64",
    torch.float32: "F32",
    torch.float16: "F16",
    torch.bfloat16: "BF16",
    torch.int64: "I64",
    torch.int32: "I32",
    torch.int16: "I16",
    torch.int8: "I8",
    torch.uint8: "U8",
    torch.bool: "BOOL",
}
"""Types by their names in a file."""

ALIGNMENT = 8
"""Of the first tensor, in bytes. Those of large numbers come first, so that all are aligned."""


def pieces_of(tensors: Mapping[str, Tensor]) -> Iterator[bytes | memoryview]:
    """What the file of tensors consists of, in order. Of tensors on a GPU one at a time is copied."""
    names = sorted(tensors, key=lambda name: (-tensors[name].dtype.itemsize, name))
    header, end = {}, 0
    for name in names:
        tensor = tensors[name]
        begin, end = end, end + tensor.numel() * tensor.dtype.itemsize
        header[name] = {"dtype": KINDS[tensor.dtype], "shape": list(tensor.shape), "data_offsets": [begin, end]}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % ALIGNMENT)
    yield len(text).to_bytes(8, "little") + text
    for name in names:
        yield tensors[name].detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data
