import shlex
from pathlib import Path

import pytest

from gmi_drl.units import (
    alternatives,
    human_bytes,
    human_count,
    human_gib,
    human_ranges,
    human_seconds,
    human_value,
    quoted,
)


@pytest.mark.parametrize(
    ("value", "text"), [(0, "0 B"), (1023, "1023 B"), (3972844748, "3.7 GiB"), (2**50, "1024.0 TiB")]
)
def test_bytes(value, text):
    assert human_bytes(value) == text


@pytest.mark.parametrize(("size", "text"), [(0.5, "512.0 MiB"), (79.6, "79.6 GiB"), (267_565, "261.3 TiB")])
def test_gib(size, text):
    assert human_gib(size) == text


@pytest.mark.parametrize(("value", "text"), [(999, "999"), (151234, "151.2k"), (2e12, "2.0T")])
def test_counts(value, text):
    assert human_count(value) == text


@pytest.mark.parametrize(("value", "text"), [(5.25, "5.2 s"), (83.2, "1 min 23 s"), (3700, "1 h 1 min")])
def test_seconds(value, text):
    assert human_seconds(value) == text


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (7.3e-5, "s", "73.0 us"),
        (0.0029, "s", "2.9 ms"),
        (83.2, "s", "1 min 23 s"),
        (2048, "bytes", "2.0 KiB"),
        (12954, "steps/s", "13.0k steps/s"),
        (0.4567, "", "0.457"),
        (999.4, "steps/s", "999 steps/s"),
        (999.6, "steps/s", "1000 steps/s"),
    ],
)
def test_measured_values(value, unit, text):
    assert human_value(value, unit) == text


@pytest.mark.parametrize(
    ("numbers", "text"), [((), ""), ((3,), "3"), ((0, 1, 2, 5), "0-2,5"), ((7, 0, 6), "0,6-7"), (range(128), "0-127")]
)
def test_ranges(numbers, text):
    assert human_ranges(numbers) == text


@pytest.mark.parametrize(("names", "text"), [("a", "a"), ("ab", "a or b"), ("abc", "a, b or c")])
def test_alternatives(names, text):
    assert alternatives(list(names)) == text


def test_a_number_that_comes_twice_is_in_a_range_once():
    assert human_ranges([48, 49, 48, 50]) == "48-50"


def test_a_shell_reads_a_path_as_one_word():
    path = Path("runs/it's mine")
    assert shlex.split(f"status {quoted(path)}") == ["status", str(path)]
    assert quoted(Path("runs/ant-1")) == "runs/ant-1"
