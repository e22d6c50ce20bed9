import os

import pytest
import torch

from gmi_drl.comm.memory.pinned import Upload, pinned_zeros, try_to_register, unregister
from gmi_drl.comm.memory.rank_slots import Rows
from gmi_drl.comm.memory.segment import create_segment
from gmi_drl.cuda_graph import WARM_UP_CALLS, Captured
from gmi_drl.roles.precision import set_precision

pytestmark = pytest.mark.gpu

DEVICE = torch.device("cuda:0")


def test_an_upload_is_not_waited_for_and_none_overwrites_the_one_before():
    numel, values = 1 << 22, range(1, 9)
    source, copies = pinned_zeros(numel, device=DEVICE), Upload()
    targets = [torch.zeros(numel, device=DEVICE) for _ in values]
    assert source.is_pinned()
    torch.cuda.set_sync_debug_mode("error")
    try:
        for value, target in zip(values, targets, strict=True):
            copies.wait()
            source.fill_(value)
            copies.start(source, target)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert all((target == value).all() for value, target in zip(values, targets, strict=True))


def test_registering_that_is_refused_leaves_no_error_to_the_next_kernel():
    fd = create_segment(1, 1 << 20)
    (slot,) = Rows(fd, 1).slots
    os.close(fd)
    if refused := try_to_register(slot):
        pytest.skip(refused)
    assert "ALREADY_REGISTERED" in try_to_register(slot)  # torch's `is_pinned` does not know of it
    assert torch.ones(3, device=DEVICE).sum() == 3
    unregister(slot)
    assert not try_to_register(slot), "it was unregistered"
    unregister(slot)


@pytest.mark.skipif(
    torch.cuda.is_available() and torch.cuda.get_device_capability()[0] < 8, reason="GPUs before Ampere have no TF32"
)
def test_tf32_changes_products_captured_ones_too():
    left, right = (torch.randn(512, 512, device=DEVICE) for _ in range(2))
    product, exact, errors = torch.empty_like(left), left.double() @ right.double(), []
    before = torch.get_float32_matmul_precision()
    try:
        for tf32 in (False, True, False):
            set_precision(DEVICE, tf32=tf32)
            multiply = Captured(lambda: torch.mm(left, right, out=product), DEVICE)
            for _ in range(WARM_UP_CALLS + 1):
                product.zero_()
                multiply()
            errors.append(((product - exact).abs().max() / exact.abs().max()).item())
    finally:
        torch.set_float32_matmul_precision(before)
    assert max(errors[0], errors[2]) < 1e-5 < errors[1] < 1e-2
