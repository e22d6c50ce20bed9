import pytest
import torch

from gmi_drl.algo.networks.conv import SMALL, pixels_of


@pytest.mark.parametrize("shape", [(5, 3, 12, 10), (5, 3, 80, 70)])
def test_pixels_are_those_of_torchs_own_copy_and_lie_channel_last(shape):
    image = torch.randint(0, 256, shape, dtype=torch.uint8)
    assert (image.numel() < SMALL) == (shape[-1] == 10)  # either way of copying
    found = pixels_of(image)
    assert torch.equal(found, image.float() * (1 / 255)) and found.is_contiguous(memory_format=torch.channels_last)
