import pytest

from gmi_drl.errors import UsageError
from gmi_drl.layout.mapping import (
    by_device,
    check_mapping,
    delegates,
    even_mapping,
    har_seconds,
    leaders,
    mpr_seconds,
    mrr_obstacle,
    mrr_seconds,
    rings,
    select_by_layout,
    shortest,
)


@pytest.mark.parametrize(
    ("mapping", "strategy"),
    [
        ([[0, 1, 2]], "MPR"),
        ([[0]], "MPR"),
        (even_mapping(2, 2), "MRR"),  # Table 7: 2G2T
        (even_mapping(2, 3), "HAR"),  # 2G3T
        (even_mapping(4, 4), "MRR"),  # 4G4T
        ([[0], [1]], "MRR"),
        ([[0], [1, 2, 3]], "HAR"),
        ([[0, 1], [2, 3, 4]], "HAR"),
    ],
)
def test_algorithm_1(mapping, strategy):
    assert select_by_layout(mapping) == strategy
    if len(mapping) > 1:
        assert (mrr_obstacle(mapping) is None) == (strategy == "MRR")


@pytest.mark.parametrize(
    ("mapping", "said"),
    [
        ([], "needs a device"),
        ([[0], []], r"device 1 of \[\[0\], \[\]\] has no GMI"),
        ([[0, 1], [2, 1]], "GMI 1 is on device 0 and again on 1"),
        ([[0, 0]], "GMI 0 is on device 0 and again on 0"),
        ([0, 1], r"a list of GMIs for each device, as \[\[0, 1\], \[2, 3\]\], not \[0, 1\]"),
        ("ab", "a list of GMIs for each device"),
        ({0: [1]}, "a list of GMIs for each device"),
        ([[0, "x"]], "a GMI has a number from 0 on, not 'x'"),
        ([[True]], "not True"),
        ([[-1]], "not -1"),
    ],
)
def test_what_is_no_mapping_is_refused(mapping, said):
    for function in (check_mapping, select_by_layout):
        with pytest.raises(UsageError, match=said):
            function(mapping)


def test_obstacles_say_what_is_wrong():
    assert "needs as many GMIs on every device, not 1 and 3" in mrr_obstacle([[0], [1, 2, 3]])
    assert "at most as many GMIs per device as devices, not 3 on 2" in mrr_obstacle(even_mapping(2, 3))
    with pytest.raises(UsageError, match="not 3 on 2"):
        delegates(even_mapping(2, 3))


def test_leaders_rings_and_delegates():
    assert rings(even_mapping(3, 2)) == [[0, 2, 4], [1, 3, 5]] and delegates(even_mapping(3, 2)) == [0, 3]
    assert delegates(even_mapping(3, 3)) == [0, 4, 8] and delegates([[7], [9]]) == [7]
    uneven = [[5, 2], [8, 1, 4]]
    assert shortest(uneven) == 2
    assert [leaders(uneven, t) for t in range(2)] == [[5, 8], [2, 1]] == rings(uneven)
    for t in (-1, 2):
        with pytest.raises(UsageError, match=rf"leader {t} \(from 0\) of each device needs"):
            leaders(uneven, t)


def test_leaders_are_the_papers_where_ids_are_in_a_row():
    for t in range(4):
        assert leaders(even_mapping(3, 4), t) == [gmi for gmi in range(12) if gmi % 4 == t]


def test_table_2():
    """With 2 GPUs of 3 GMIs, 6 MB, 1 and 100 GB/s."""
    assert mpr_seconds(2, 3, 6e6, 1e9) == pytest.approx(10e-3)
    assert mrr_seconds(2, 3, 6e6, 1e11) == pytest.approx(240e-6)
    assert har_seconds(2, 3, 6e6, 1e9, 1e11) == pytest.approx(60e-6 + 8e-3)


def test_a_mapping_is_made_of_where_each_is():
    assert [*map(list, even_mapping(2, 3))] == [[0, 1, 2], [3, 4, 5]]
    assert by_device((5, 2, 4, 1), lambda gmi: gmi % 2) == [[5, 1], [2, 4]]
