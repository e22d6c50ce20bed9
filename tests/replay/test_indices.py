"""Indices by numpy."""

import numpy as np
import pytest
import torch

from gmi_drl.replay.indices import index_of, runs


@pytest.mark.parametrize(
    ("slots", "expected"),
    [([], slice(0, 0)), ([5], slice(5, 6)), ([3, 4, 5], slice(3, 6)), ([3, 4], slice(3, 5))],
)
def test_consecutive_slots_are_a_slice(slots, expected):
    assert index_of(torch.tensor(slots, dtype=torch.int64)) == expected


@pytest.mark.parametrize("slots", [[3, 5], [4, 3], [1, 3, 2, 4], [7, 0, 1], [2, 2], [0, 5, 2]])
def test_others_are_an_array(slots):
    found = index_of(torch.tensor(slots))
    assert isinstance(found, np.ndarray) and found.tolist() == slots


@pytest.mark.parametrize("values", [[], [4], [4, 4, 4], [1, 1, 2, 1], [0, 1, 2]])
def test_runs_are_those_of_torch(values):
    expected = torch.unique_consecutive(torch.tensor(values, dtype=torch.int64), return_counts=True)
    found = runs(np.array(values, dtype=np.int64))
    assert [part.tolist() for part in found] == [part.tolist() for part in expected]
