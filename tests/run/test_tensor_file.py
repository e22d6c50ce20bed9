"""Files of safetensors that are written tensor by tensor."""

import pytest
import torch
from safetensors.torch import load, save

from gmi_drl.run.tensor_file import KINDS, pieces_of


@pytest.mark.parametrize("dtype", sorted(KINDS, key=str), ids=str)
def test_every_type_is_read_again(dtype):
    tensors = {"a": torch.arange(6).reshape(2, 3).to(dtype), "b": torch.tensor(1).to(dtype), "c": torch.empty(0, 4)}
    tensors["turned"] = tensors["a"].t()
    read = load(b"".join(pieces_of(tensors)))
    assert read.keys() == tensors.keys()
    for name, tensor in tensors.items():
        assert read[name].dtype == tensor.dtype and torch.equal(read[name], tensor)


def test_they_are_those_of_the_library():
    tensors = {"flags": torch.ones(3, dtype=torch.bool), "x": torch.rand(2, 2), "count": torch.tensor(7)}
    assert b"".join(pieces_of(tensors))[-27:] == save(tensors)[-27:]


def test_memory_is_not_copied():
    rows = torch.zeros(4)
    _, memory = pieces_of({"rows": rows})
    rows[0] = 1
    assert torch.frombuffer(memory, dtype=torch.float32)[0] == 1
