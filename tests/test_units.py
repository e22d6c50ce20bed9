import pytest

from gmi_drl.units import human_bytes, human_count, human_ranges, human_seconds


@pytest.mark.parametrize(
    ("value", "text"), [(0, "0 B"), (1023, "1023 B"), (3972844748, "3.7 GiB"), (2**50, "1024.0 TiB")]
)
def test_bytes(value, text):
    assert human_bytes(value) == text


@pytest.mark.parametrize(("value", "text"), [(999, "999"), (151234, "151.2k"), (2e12, "2.0T")])
def test_counts(value, text):
    assert human_count(value) == text


@pytest.mark.parametrize(("value", "text"), [(5.25, "5.2 s"), (83.2, "1 min 23 s"), (3700, "1 h 1 min")])
def test_seconds(value, text):
    assert human_seconds(value) == text


@pytest.mark.parametrize(
    ("numbers", "text"), [((), ""), ((3,), "3"), ((0, 1, 2, 5), "0-2,5"), ((7, 0, 6), "0,6-7"), (range(128), "0-127")]
)
def test_ranges(numbers, text):
    assert human_ranges(numbers) == text
