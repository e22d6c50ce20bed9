from itertools import combinations_with_replacement, product

import pytest

from gmi_drl.errors import UsageError
from gmi_drl.hardware.gpus import CATALOGUE, gpu_named
from gmi_drl.hardware.mig_compute import STARTS, compute_fits, compute_name, even_size

A100 = gpu_named("A100-SXM4-40GB")

# `-lcip` on an A100: how many there may be of each size.
MOST = {
    "1g.5gb": {1: 1},
    "2g.10gb": {1: 2, 2: 1},
    "3g.20gb": {1: 3, 2: 1, 3: 1},
    "4g.20gb": {1: 4, 2: 2, 4: 1},
    "7g.40gb": {1: 7, 2: 3, 3: 2, 4: 1, 7: 1},
}


@pytest.mark.parametrize("name", MOST)
def test_sizes_and_how_many_fit(name):
    profile = A100.profile(name)
    fitting = {size: max(k for k in range(9) if compute_fits(profile, [size] * k)) for size in range(1, 9)}
    assert {size: k for size, k in fitting.items() if k} == MOST[name]


def test_sizes_may_differ_within_their_sum():
    seven = A100.profile("7g.40gb")
    assert compute_fits(seven, [1, 2, 3]) and compute_fits(seven, [3, 4]) and not compute_fits(seven, [4, 2, 2])
    assert not compute_fits(A100.profile("4g.20gb"), [3, 1])


# `-lcipp` on an A100, whose 7g has all of them.
STARTS_OF_7G = {1: range(7), 2: (0, 2, 4), 3: (0, 4), 4: (0,), 7: (0,)}


def can_be_placed(sizes):
    """By trying all starts."""
    for starts in product(*(STARTS_OF_7G[size] for size in sizes)):
        taken = [slot for start, size in zip(starts, sizes, strict=True) for slot in range(start, start + size)]
        if len(set(taken)) == len(taken):
            return True
    return False


def test_what_fits_is_what_can_be_placed():
    seven = A100.profile("7g.40gb")
    every = [sizes for k in range(1, 6) for sizes in combinations_with_replacement((7, 4, 3, 2, 1), k)]
    assert [s for s in every if compute_fits(seven, s)] == [s for s in every if can_be_placed(s)]
    assert compute_fits(seven, [3, 2, 2]) and not compute_fits(A100.profile("3g.20gb"), [2, 2])


def test_even_sizes():
    assert [even_size(A100.profile("7g.40gb"), k) for k in range(1, 9)] == [7, 3, 2, 1, 1, 1, 1, None]
    assert even_size(A100.profile("3g.20gb"), 2) == 1 and even_size(A100.profile("1g.5gb"), 2) is None


def test_names():
    three = A100.profile("3g.20gb")
    assert [compute_name(three, size) for size in (1, 2, 3)] == ["1c.3g.20gb", "2c.3g.20gb", "3g.20gb"]
    with pytest.raises(UsageError, match=r"4g.20gb has no compute instance of 3 slices, only of 4, 2, 1"):
        compute_name(A100.profile("4g.20gb"), 3)


def test_every_profile_has_sizes():
    assert {profile.slices for gpu in CATALOGUE for profile in gpu.mig} == STARTS.keys()
