import statistics

import pytest

from gmi_drl.benchmarks.statistics import bootstrap, ends, ends_of, ratios, spread


def test_median_and_range():
    assert spread([3.0, 1.0, 10.0, 2.0]) == (2.5, 1.0, 10.0)


def test_ratios_are_such_that_above_one_is_good_for_us():
    assert ratios([4.0, 1.0], [2.0, 2.0], lower_is_better=False) == [2.0, 0.5]
    assert ratios([4.0, 1.0], [2.0, 2.0], lower_is_better=True) == [0.5, 2.0]
    with pytest.raises(ValueError, match="shorter"):
        ratios([4.0, 1.0], [2.0], lower_is_better=False)


def test_the_interval_is_that_of_the_median():
    values = list(range(1, 22))
    # The exact 95 % interval of a median by order statistics (binomial) lies between the 6th and the 16th of 21.
    low, high = bootstrap(values)
    assert 5 <= low <= 8 and 14 <= high <= 17
    assert bootstrap(values) == (low, high)
    assert bootstrap([1.5]) == (1.5, 1.5)
    assert bootstrap([1.0, 1.0, 9.0, 1.0, 1.0])[1] >= 1.0 == bootstrap([1.0, 1.0, 9.0, 1.0, 1.0])[0]


def test_samples_too_few_for_an_interval_have_a_range():
    assert ends_of(4) == "range" and ends_of(5) == "95 % interval"
    assert ends([3.0, 1.0, 2.0], of=statistics.fmean) == (1.0, 3.0), "the bootstrap of a mean would be narrower"
    values = [float(value) for value in range(1, 22)]
    assert ends(values) == bootstrap(values)


def test_the_interval_can_be_of_the_mean():
    low, high = bootstrap([0.0, 0.0, 0.0, 0.0, 10.0], of=statistics.fmean)
    assert 0.0 <= low < 2.0 < high <= 8.0, "of the median it would be 0 to 0 or 10"
