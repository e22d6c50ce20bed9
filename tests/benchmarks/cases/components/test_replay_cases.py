from functools import partial

import pytest

from gmi_drl.benchmarks.case import CURVES
from gmi_drl.benchmarks.cases import CASES
from gmi_drl.benchmarks.cases.common import growing
from gmi_drl.benchmarks.cases.components import replay, replay_gather, replay_learning, replay_rings

ALL = [*replay.CASES, *replay_gather.CASES, *replay_rings.CASES, *replay_learning.CASES]


@pytest.mark.parametrize("case", ALL, ids=lambda case: case.name)
def test_small_sizes_are_measured_without_peers(case, monkeypatch):
    monkeypatch.setattr(replay, "QUICK_SECONDS", 0.01)
    monkeypatch.setattr(replay_gather, "QUICK_ROWS", 300)
    monkeypatch.setattr(replay_learning, "QUICK_CALLS", 1)
    with case.open(True) as sides:
        assert next(iter(sides)).startswith("gmi-drl")
        assert not {"cpprb", "torchrl"} & set(sides)
        samples = [side() for side in sides.values()]
    if case.unit == "exponent":
        assert all(min(sample.details[CURVES]["seconds"]) > 0 for sample in samples)
    else:
        assert all(sample.value > 0 for sample in samples)


def test_growth_of_replay_is_one_exponent_of_all_sizes():
    case = CASES["replay_growth"]
    with case.open(True) as sides:
        (sample,) = (side() for side in sides.values())
    sizes, seconds = sample.details[CURVES].values()
    assert sizes == [*replay_rings.QUICK_SIZES] and "grown_bytes" in sample.details
    assert sample.value == growing.exponent(sizes, seconds)
    assert sample.details["bends_at"] == growing.bend(sizes, seconds)


def test_a_case_without_its_peers_says_how_to_get_them(monkeypatch):
    monkeypatch.setattr(replay.peers, "REPOSITORY", replay.peers.REPOSITORY / "nowhere")
    assert "run it from a checkout" in partial(replay.obstacle, ("cpprb",))()
