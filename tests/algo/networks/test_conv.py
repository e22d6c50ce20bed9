import torch

from gmi_drl.algo.networks.conv import pixels_of


def test_pixels_are_those_of_torchs_own_copy_and_lie_channel_last():
    image = torch.randint(0, 256, (5, 3, 12, 10), dtype=torch.uint8)
    found = pixels_of(image)
    assert torch.equal(found, image.float() * (1 / 255)) and found.is_contiguous(memory_format=torch.channels_last)
