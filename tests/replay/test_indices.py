"""Indices by numpy."""

import numpy as np
import pytest
import torch

from gmi_drl.replay.indices import index_of, index_of_slots, runs, runs_of_row, zeros


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


@pytest.mark.parametrize(("first", "end"), [(0, 1), (3, 10), (9, 10), (9, 11), (10, 20), (5, 37), (0, 30)])
def test_runs_of_a_row_are_those_of_its_numbers(first, end):
    expected, found = runs(np.arange(first, end) // 10), runs_of_row(slice(first, end), 10)
    assert [part.tolist() for part in found] == [part.tolist() for part in expected]


def test_what_slots_are_as_an_index_is_found_out_once():
    slots = torch.tensor([4, 5, 6])
    assert index_of_slots(slots) == slice(4, 7)
    assert index_of_slots(slots) is index_of_slots(slots)
    assert isinstance(index_of_slots(torch.tensor([4, 6])), np.ndarray)


def test_zeros_have_the_shape_and_type():
    found = zeros(3, 2, dtype=torch.float64)
    assert found.dtype == torch.float64 and found.tolist() == [[0.0, 0.0]] * 3
    assert zeros(2).dtype == torch.int64
