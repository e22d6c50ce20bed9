import json

import numpy as np
import pytest

from gmi_drl.roles.serving.latency import Latencies


def of(seconds):
    latencies = Latencies()
    latencies.add(seconds)
    return latencies


@pytest.mark.parametrize("part", [0.01, 0.5, 0.95, 0.99, 1.0])
def test_a_quantile_is_at_most_a_hundredth_too_long(part):
    seconds = np.random.default_rng(0).lognormal(-6, 2, size=1000)
    exact = np.sort(seconds)[int(np.ceil(part * len(seconds))) - 1]
    assert exact <= of(seconds).quantile(part) <= 1.01 * exact * (1 + 1e-9)


def test_milliseconds_are_in_order_and_the_longest_is_exact():
    times = of([0.002] * 98 + [0.004, 0.1]).milliseconds()
    assert list(times) == ["p50", "p95", "p99", "max"] and times["max"] == 100.0
    assert times["p50"] == times["p95"] == pytest.approx(2, rel=0.0101) and times["p99"] == pytest.approx(4, rel=0.0101)
    assert of([0.003]).milliseconds() == dict.fromkeys(times, 3.0)


def test_no_step_has_no_latency():
    assert of([]).milliseconds() is None and Latencies.joined([]).milliseconds() is None


def test_what_is_out_of_bounds_is_counted_at_them():
    latencies = of([0.0, 1e-9, 5000.0])
    assert latencies.quantile(0.5) == pytest.approx(1e-6, rel=0.0101) and latencies.milliseconds()["max"] == 5e6


def test_histograms_are_joined_also_after_json():
    seconds = np.random.default_rng(1).exponential(0.01, size=300)
    parts = [of(seconds[:100]), of(seconds[100:]), of([])]
    carried = [Latencies.from_json(json.loads(json.dumps(part.to_json()))) for part in parts]
    assert Latencies.joined(carried).milliseconds() == of(seconds).milliseconds()
