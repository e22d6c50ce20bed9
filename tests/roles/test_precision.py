import pytest
import torch

from gmi_drl.errors import MachineError
from gmi_drl.roles import precision
from gmi_drl.roles.precision import flush_denormals, set_precision

GPU = torch.device("cuda:0")


@pytest.fixture(autouse=True)
def as_it_was():
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest")
    yield
    torch.set_float32_matmul_precision(before)


@pytest.mark.parametrize("is_asked", [False, True])
def test_torchs_switch_is_set_for_a_gpu_whatever_it_was_and_however_it_is_read(is_asked):
    torch.set_float32_matmul_precision("highest" if is_asked else "high")
    set_precision(GPU, tf32=is_asked)
    assert torch.get_float32_matmul_precision() == ("high" if is_asked else "highest")
    assert torch.backends.cuda.matmul.allow_tf32 is is_asked


def test_a_cpu_multiplies_as_before():
    set_precision(torch.device("cpu"), tf32=True)
    assert torch.get_float32_matmul_precision() == "highest"


def test_bfloat16_is_refused_where_it_would_be_emulated(monkeypatch):
    monkeypatch.setattr(precision, "has_bf16", lambda: True)
    precision.require_bf16(torch.device("cpu"))
    monkeypatch.setattr(precision, "has_bf16", lambda: False)
    with pytest.raises(MachineError, match=r"learner.bf16: the device has no bfloat16 .*--set learner.bf16=false"):
        precision.require_bf16(torch.device("cpu"))


def test_a_cpu_computes_with_0_in_place_of_denormal_numbers():
    tiny = torch.tensor(1e-39)
    try:
        flush_denormals()
        assert (tiny * 0.5) == 0
    finally:
        torch.set_flush_denormal(False)
    assert (tiny * 0.5) > 0
