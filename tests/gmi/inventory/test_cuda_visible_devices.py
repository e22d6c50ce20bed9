import pytest

from gmi_drl.errors import UsageError
from gmi_drl.gmi.inventory.cuda_visible_devices import choose

GPUS = ("GPU-aa11", "GPU-aa22", "GPU-bb33")
MIG = {"MIG-cc44": "MIG-cc44", "MIG-GPU-bb33/1/0": "MIG-cc44", "MIG-cd55": "MIG-cd55", "MIG-GPU-bb33/2/0": "MIG-cd55"}


@pytest.mark.parametrize(
    ("text", "chosen"),
    [
        (None, "GPU-aa11 GPU-aa22 GPU-bb33"),
        ("", ""),
        ("-1", ""),
        ("NoDevFiles", ""),
        ("1", "GPU-aa22"),
        ("2, 0", "GPU-bb33 GPU-aa11"),
        ("+1", "GPU-aa22"),
        ("1gpu2", "GPU-aa22"),
        ("0,2,-1,1", "GPU-aa11 GPU-bb33"),
        ("0,7,1", "GPU-aa11"),
        ("GPU-bb", "GPU-bb33"),
        ("GPU-bb33,GPU-aa11", "GPU-bb33 GPU-aa11"),
        ("GPU-aa", ""),
        ("GPU-bb33,1", "GPU-bb33"),
        ("1,GPU-bb33", "GPU-aa22"),
        ("MIG-cd55", "MIG-cd55"),
        ("MIG-cc,MIG-cd", "MIG-cc44 MIG-cd55"),
        ("MIG-c", ""),
        ("MIG-GPU-bb33/2/0", "MIG-cd55"),
        ("MIG-cc44,GPU-aa11", "MIG-cc44"),
        ("GPU-aa11,MIG-cc44", "GPU-aa11"),
    ],
)
def test_devices_are_those_that_cuda_would_show(text, chosen):
    assert choose(text, GPUS, MIG).names == tuple(chosen.split())


@pytest.mark.parametrize("text", ["1,1", "0,1,0", "GPU-bb,GPU-bb33", "MIG-cc44,MIG-GPU-bb33/1/0"])
def test_a_device_named_twice_is_an_error_as_cuda_would_show_none(text):
    with pytest.raises(UsageError, match="twice"):
        choose(text, GPUS, MIG)


@pytest.mark.parametrize(
    ("text", "note"),
    [
        ("0,7,1", "names '7', which is none of this machine's 3 GPUs: CUDA hides it and what follows it"),
        ("GPU-aa", "CUDA hides it"),
        ("0,-1,1", ""),
        ("", ""),
        (None, ""),
    ],
)
def test_what_is_hidden_by_mistake_is_noted(text, note):
    found = choose(text, GPUS, MIG).note
    assert note in found and bool(found) == bool(note)
