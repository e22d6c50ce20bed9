from dataclasses import replace

import pytest

from gmi_drl.errors import UsageError
from gmi_drl.reductions import MPR_GLOO, MPR_SHM, NONE, REDUCTIONS, usual_reduction


def test_the_usual_one_goes_by_the_processor():
    assert usual_reduction(1, "aarch64") is NONE
    assert usual_reduction(2, "x86_64") is MPR_SHM
    assert usual_reduction(2, "aarch64") is MPR_GLOO


def test_what_a_method_cannot_is_said():
    assert NONE.obstacle(1) is None
    assert NONE.obstacle(2) == "reduction 'none' is for groups of 1, not 2: use MPR-shm or MPR-gloo"
    assert MPR_SHM.obstacle(8) is None and MPR_SHM.obstacle(8, "x86_64") is None and MPR_GLOO.obstacle(8, "any") is None
    assert MPR_SHM.obstacle(8, "aarch64") == "MPR-shm needs a processor of x86_64, AMD64, this is aarch64"


def test_a_reduction_costs_what_table_5_says():
    assert MPR_SHM.moved_bytes(4, 8_000) == 12_000 and NONE.seconds(1, 8_000) == 0
    assert MPR_GLOO.seconds(2, 9 * 10**8) == 1.0


def test_between_gpus_a_bandwidth_of_their_own_counts_where_it_is_known():
    measured = replace(MPR_GLOO, gpu_bytes_per_second=18e8)
    assert measured.seconds(2, 9 * 10**8, on_gpu=True) == 0.5 and measured.seconds(2, 9 * 10**8) == 1.0
    assert MPR_GLOO.seconds(2, 9 * 10**8, on_gpu=True) == 1.0 and NONE.seconds(1, 8, on_gpu=True) == 0


def test_an_unknown_one_is_refused_with_the_nearest():
    with pytest.raises(UsageError, match="there is no reduction 'MPR-shn'; did you mean 'MPR-shm'"):
        REDUCTIONS.find("MPR-shn")
