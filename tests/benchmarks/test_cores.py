import os

import pytest
import torch

from gmi_drl.benchmarks.cores import one_core
from gmi_drl.errors import LayoutMismatchError


def test_a_core_is_held_and_given_back():
    before = os.sched_getaffinity(0), torch.get_num_threads()
    with one_core():
        (core,) = os.sched_getaffinity(0)
        assert torch.get_num_threads() == 1
        with pytest.raises(LayoutMismatchError, match=f"core-{core} is in use"), one_core():
            pass
    assert (os.sched_getaffinity(0), torch.get_num_threads()) == before
