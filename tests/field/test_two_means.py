import random

import pytest
import two_means
from two_means import chance, interval, ratio_of_means, relative_error


def drawn(mean, count, seed):
    generator = random.Random(seed)
    return [generator.gauss(mean, 0.1 * mean) for _ in range(count)]


def test_seeds_that_differ_by_a_fifth_are_no_chance():
    assert chance(drawn(120, 20, 1), drawn(100, 20, 2)) < 0.001


def test_chance_alone_exceeds_five_percent_in_five_of_a_hundred_comparisons_of_equals(monkeypatch):
    monkeypatch.setattr(two_means, "PERMUTATIONS", 200)
    exceeded = sum(chance(drawn(100, 10, seed), drawn(100, 10, 1000 + seed)) <= 0.05 for seed in range(100))
    assert 1 <= exceeded <= 12


def test_an_interval_holds_the_ratio_and_is_about_as_wide_as_four_errors():
    ours, theirs = drawn(110, 50, 1), drawn(100, 50, 2)
    low, high = interval(ours, theirs)
    error = ratio_of_means(ours, theirs) * (relative_error(ours) ** 2 + relative_error(theirs) ** 2) ** 0.5
    assert low < ratio_of_means(ours, theirs) < high
    assert high - low == pytest.approx(4 * error, rel=0.15)


def test_means_below_zero_are_compared_and_three_seeds_a_side_have_a_tenth_at_least():
    assert chance([-1.0, -2.0, -3.0], [-11.0, -12.0, -13.0]) == pytest.approx(0.1, abs=0.01)
    assert chance([-1.0, -2.0], [-1.0, -2.0]) == 1.0
