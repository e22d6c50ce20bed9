import os
from types import SimpleNamespace

import pytest
import torch

pytest.importorskip("rsl_rl", reason="needs the extra [rsl-rl]")

from rsl_rl.modules import EmpiricalNormalization

from gmi_drl.roles.rsl_rl.group import process_group
from gmi_drl.roles.rsl_rl.shared_statistics import take_in


def batches(rank):
    """Two of different sizes and places for each rank."""
    generator = torch.Generator().manual_seed(rank)
    return [torch.randn(n + 7 * rank, 3, generator=generator) * (1 + rank) + 5 * rank for n in (4, 9)]


def moments_of_both(rank, store):
    """What a rank's normaliser knows in the end: the count, the means and the deviations."""
    normaliser = EmpiricalNormalization(3)
    with process_group(SimpleNamespace(rank=rank, size=2), store, 30):
        normaliser.is_open = True
        for batch in batches(rank):
            take_in(normaliser, batch)
        normaliser.is_open = False
        take_in(normaliser, torch.full((5, 3), 1e6))  # which is left out
    return torch.cat((normaliser.count.view(1), normaliser.mean, normaliser.std))


def test_every_rank_has_the_statistics_of_all_observations(tmp_path):
    told, tell = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(tell, moments_of_both(1, tmp_path / "store").numpy().tobytes())
        finally:
            os._exit(0)
    moments = moments_of_both(0, tmp_path / "store")
    os.waitpid(child, 0)
    assert os.read(told, 100) == moments.numpy().tobytes()
    together = torch.cat(batches(0) + batches(1))
    expected = torch.cat((torch.tensor([float(len(together))]), together.mean(0), together.std(0, correction=0)))
    torch.testing.assert_close(moments, expected)
