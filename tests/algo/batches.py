"""Batches as a ring draws them, made by hand."""

import torch

from gmi_drl.replay.ring import RingBatch


def batch_of(observation, action, size=16, seed=0):
    """A batch with random steps, one of which is the last of its episode."""
    draw = torch.Generator().manual_seed(seed)
    fields = {
        "obs": torch.randn(size, *observation.shape, generator=draw),
        "next/obs": torch.randn(size, *observation.shape, generator=draw),
        "reward": torch.randn(size, generator=draw),
        "discount": torch.full((size,), 0.9).index_fill_(0, torch.tensor([0]), 0.0),
    }
    if action.categories:
        fields["action"] = torch.randint(action.categories[0], (size, 1), generator=draw).float()
    else:
        fields["action"] = torch.rand(size, action.numbers, generator=draw) * 2 - 1
    return RingBatch(fields, torch.arange(size), torch.full((size,), 1 / 99), 99, (object(), None))
