"""When a batch of requests goes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gmi_drl.comm.streams.batching import requests_due


@pytest.mark.parametrize(
    ("waiting", "most", "waited_s", "due"),
    [
        ([], 4, 9.0, []),
        ([0], 4, 0.0, []),
        ([0], 4, 1.0, [0]),
        ([0, 1], 4, 0.0, []),  # both of one client
        ([0, 2], 4, 0.0, [0, 2]),
        ([3, 0, 1], 2, 0.0, [3, 0]),
    ],
)
def test_a_batch_is_full_or_has_all_clients_or_has_waited(waiting, most, waited_s, due):
    got = requests_due(waiting, members=2, living=2, most=most, waited_s=waited_s, wait_s=1.0)
    assert list(got) == due


@given(st.lists(st.integers(0, 20), unique=True), st.integers(1, 4), st.integers(1, 25))
def test_whoever_waits_long_enough_is_in_a_batch(waiting, members, most):
    due = requests_due(waiting, members=members, living=99, most=most, waited_s=1.0, wait_s=1.0)
    assert list(due) == waiting[:most]
